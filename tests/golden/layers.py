"""Writes layers.json: ten training steps of heads with every activation that Nearfar has beside the default.

The traces have the form of proxy_trace.json, with the parts of the layers as in settings.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python layers.py
"""
from pathlib import Path

from proxy_trace import write

PROXIES = dict(loss=dict(name="proxy-anchor", margin=0.1, alpha=32.0), proxy_rate=0.1)
PAIRS = dict(loss=dict(name="sup-con", temperature=0.1))
GELU = dict(activation="gelu")
CASES = [
    dict(name="GELU", **PAIRS, layers=GELU, seed=201),
    dict(name="GELU, three hidden layers, proxies", **PROXIES, hidden=[16, 12, 9], layers=GELU, seed=202),
    dict(name="GELU, memory", **PAIRS, hidden=[12, 12], memory=48, layers=GELU, seed=203),
]

if __name__ == "__main__":
    write(CASES, Path(__file__).with_suffix(".json"))
