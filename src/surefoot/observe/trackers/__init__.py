"""Metrics to TensorBoard and W&B. What goes wrong here costs a chart, never a step."""
