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

class MemoryLoss:
    def __init__(self, choice: Choice, settings: str, memory_size: int, dim: int, batch_size: int) -> None: ...
    def set(self, settings: str) -> bool: ...
    def enqueue(self, rows: Array, labels: Numbers) -> None: ...
    def loss(self, rows: Array, labels: Numbers, stores: bool, gradient: Room | None) -> tuple[float, str]: ...
    def state(self) -> tuple[bytes, bytes, int, int]: ...
    def restore(self, rows: Array, labels: Numbers, next: int, steps: int) -> None: ...
    def reset(self) -> None: ...
    def about(self) -> tuple[int, str]: ...
    @staticmethod
    def plan(settings: str, budget: int, memory_size: int, dim: int, batch_size: int) -> str: ...

def threshold(
    choice: Choice,
    fit: Labelled,
    test: Labelled | None,
    false_match_rate: float | None,
    queries: int,
    seed: int,
) -> str: ...
def rows_to_check(choice: Choice, rows: Labelled, k: int) -> str: ...
def linear_map(choice: Choice, rows: Labelled, names: list[str], outputs: int) -> tuple[str, bytes]: ...
def compare(
    choice: Choice, rows: Labelled, names: list[str], asked: str, said: Callable[[str], Any] | None
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
