"""Did something become worse over the nights: since when, by how much, and what changed with it?"""
