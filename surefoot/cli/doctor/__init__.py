"""surefoot doctor: is everything in place?"""
