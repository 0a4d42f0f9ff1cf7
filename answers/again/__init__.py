"""Does a cell that was measured again come out as it did?"""
