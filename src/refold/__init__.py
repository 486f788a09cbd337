"""Refold."""
