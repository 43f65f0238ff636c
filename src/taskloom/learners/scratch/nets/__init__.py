"""Networks trained from scratch, each written once for any number of seeds.

Every weight has a leading axis of seeds, so a single seed is a stack of height 1, and twenty-five
seeds train as one program.
"""
