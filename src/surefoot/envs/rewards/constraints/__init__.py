"""Instructions whose fulfilment a program can tell, as IFEval (arXiv 2311.07911) and IFBench (2507.02833) name them."""
