"""The compiled part: arrays are described by address, results come as JSON."""

from collections.abc import Callable
from typing import Any, Protocol

Choice = tuple[str | None, str | None, int]
Array = tuple[int, str, int, int, int, int] | tuple[int, int, Callable[[bytes], bytes]]
Numbers = tuple[int, int]
Room = tuple[int, int]
Labelled = tuple[Array, Numbers]

class Filled(Protocol):
    loss: bool
    pairs: bool
    gradient: Room | None
    reference_gradient: Room | None

class BudgetError(MemoryError): ...
class DeviceError(RuntimeError): ...

__version__: str

def after_fork() -> None: ...
def devices(choice: Choice) -> str: ...
def knn(
    choice: Choice, references: Array, queries: Array | None, k: int, by: str, places: Numbers | None, ids: Room, values: Room
) -> str: ...
def evaluate(
    choice: Choice,
    queries: Labelled,
    references: Labelled | None,
    by: str,
    at: list[int],
    nearest: bool,
    places: Numbers | None,
) -> str: ...
def rank_queries(
    choice: Choice,
    queries: Labelled,
    references: Labelled,
    by: str,
    at: list[int],
    nearest: bool,
    places: Numbers,
) -> tuple[bytes, int]: ...
def total_of_ranked(at: list[int], lines: bytes, lone: int) -> str: ...
def mine(
    choice: Choice,
    anchors: Labelled,
    references: Labelled | None,
    copies: Numbers | None,
    settings: str,
    filled: Filled,
) -> tuple[str, list[bytes]]: ...
class Listing:
    def __init__(
        self, choice: Choice, anchors: Labelled, references: Labelled | None, settings: str, window_bytes: int
    ) -> None: ...
    def __iter__(self) -> Listing: ...
    def __next__(self) -> bytes: ...

def threshold(
    choice: Choice,
    fit: Labelled,
    test: Labelled | None,
    false_match_rate: float | None,
    queries: int,
    seed: int,
) -> str: ...
def train(
    choice: Choice, rows: Labelled, names: list[str], settings: str, said: Callable[[str], Any] | None
) -> tuple[str, bytes]: ...
def embed(choice: Choice, head: bytes, rows: Array, filled: Room | None) -> int: ...
def plan(
    work: str,
    budget: int,
    queries: int,
    references: int | None,
    dim: int,
    classes: int,
    k: int,
    by: str,
    settings: str,
) -> str: ...
def plan_pml(anchors: int, references: int, triplets: int) -> int: ...
def panic_for_a_test(choice: Choice) -> None: ...
