"""What was measured, can it be trusted, and what did people say of it?"""
