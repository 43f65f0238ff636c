"""Networks that are trained from scratch, written once for any number of seeds.

Every weight has a leading axis of seeds, so that one seed is the stack of height 1 and twenty-five
seeds are one program.
"""
