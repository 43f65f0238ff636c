"""Values of expressions: the fast evaluator, the second solver, and derivations."""
