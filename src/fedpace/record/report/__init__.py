"""Plots, timelines and report pages."""
