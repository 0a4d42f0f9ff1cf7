"""Does the decision still hold for what a server does now?"""
