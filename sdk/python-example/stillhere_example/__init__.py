"""Stillhere from Python: producer (heartbeats), stream (live states), webhook (deliveries)."""
