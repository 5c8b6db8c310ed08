"""Writes layers.json: ten training steps of heads with every activation, norm and skip that Nearfar has beside the default.

The traces have the form of proxy_trace.json, with the parts of the layers as in settings.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python layers.py
"""
from pathlib import Path

from proxy_trace import write

PROXIES = dict(loss=dict(name="proxy-anchor", margin=0.1, alpha=32.0), proxy_rate=0.1)
PAIRS = dict(loss=dict(name="sup-con", temperature=0.1))
GELU = dict(activation="gelu")
ADAM = dict(name="adam", betas=[0.9, 0.999], eps=1e-2, weight_decay=0.01)
ADAMW = dict(name="adamw", betas=[0.9, 0.999], eps=1e-2, weight_decay=0.3)
SGD = dict(name="sgd", momentum=0.9, nesterov=False, weight_decay=0.01)
CASES = [
    dict(name="GELU", **PAIRS, layers=GELU, seed=201),
    dict(name="GELU, three hidden layers, proxies", **PROXIES, hidden=[16, 12, 9], layers=GELU, seed=202),
    dict(name="GELU, memory", **PAIRS, hidden=[12, 12], memory=48, layers=GELU, seed=203),
    dict(name="layer norm", **PAIRS, hidden=[14], layers=dict(norm="layer-norm"), seed=211),
    dict(name="layer norm, GELU, three hidden layers, memory", **PAIRS, hidden=[16, 13, 10], memory=48, layers=GELU | dict(norm="layer-norm"), seed=212),
    dict(name="layer norm, weight decay, clipped", **PROXIES, hidden=[9, 12], layers=dict(norm="layer-norm"), optimizer=ADAMW, clip_grad_norm=20.0, seed=213),
    # The bias before a batch norm has no gradient but rounding, which Adam makes a step of unless its eps is larger.
    dict(name="batch norm, SGD", **PAIRS, hidden=[14], layers=dict(norm="batch-norm"), rate=0.1, optimizer=SGD, seed=221),
    dict(name="batch norm, GELU, three hidden layers, memory", **PAIRS, hidden=[16, 13, 10], memory=48, layers=GELU | dict(norm="batch-norm"), optimizer=ADAM, seed=222),
    dict(name="batch norm, weight decay, clipped", **PROXIES, hidden=[9, 12], layers=dict(norm="batch-norm"), optimizer=ADAMW, clip_grad_norm=20.0, seed=223),
    dict(name="skip", **PAIRS, hidden=[14], layers=dict(skip=True), seed=231),
    dict(name="skip, GELU, three hidden layers, memory", **PAIRS, hidden=[16, 13, 10], memory=48, layers=GELU | dict(skip=True), seed=232),
    dict(name="skip, layer norm, weight decay, clipped", **PROXIES, hidden=[9, 12], layers=dict(norm="layer-norm", skip=True), optimizer=ADAMW, clip_grad_norm=20.0, seed=233),
    dict(name="skip, batch norm, SGD", **PAIRS, hidden=[14], layers=dict(norm="batch-norm", skip=True), rate=0.1, optimizer=SGD, seed=234),
]

if __name__ == "__main__":
    write(CASES, Path(__file__).with_suffix(".json"))
