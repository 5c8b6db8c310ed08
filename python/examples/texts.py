"""A model of sentence-transformers scored by classes of texts, and trained on hard negatives: `python texts.py`.

The model is a small one with random weights, so that nothing is downloaded; `SentenceTransformer("all-MiniLM-L6-v2")` takes its place.
"""

import random

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from nearfar.sentence_transformers import RetrievalEvaluator, mine_hard_negatives

SUBJECTS = {
    "weather": "rain cloud storm wind sun frost thunder drizzle",
    "music": "guitar violin song drum choir melody chord rhythm",
    "kitchen": "bread butter oven recipe flour salt soup pepper",
    "travel": "train ticket harbour passport hotel luggage border map",
}
FILLERS = "the a this that again today slowly often with under near without".split()


def made(rows, seed):
    """Sentences with two words of their subject among others."""
    draw = random.Random(seed)
    labels = [draw.choice(list(SUBJECTS)) for _ in range(rows)]
    return [" ".join(draw.sample([*draw.sample(SUBJECTS[label].split(), 2), *draw.sample(FILLERS, 5)], 7)) for label in labels], labels


words = [word for line in [*SUBJECTS.values(), " ".join(FILLERS)] for word in line.split()]
tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
torch.manual_seed(0)
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=32)], device="cpu")

evaluator = RetrievalEvaluator(*made(400, 1), name="test", budget="16MiB", engine="cpu")
before = evaluator(model)

texts, labels = made(400, 2)
by_label = {label: [text for text, of in zip(texts, labels, strict=True) if of == label] for label in SUBJECTS}
positives = [random.Random(text).choice(by_label[label]) for text, label in zip(texts, labels, strict=True)]
mined = mine_hard_negatives(
    Dataset.from_dict({"anchor": texts, "positive": positives}), model, range_max=60, num_negatives=20, budget="16MiB", engine="cpu"
)
# A near text of the same subject is no negative.
subject = dict(zip(texts, labels, strict=True))
mined = mined.select([place for place, row in enumerate(mined) if subject[row["anchor"]] != subject[row["negative"]]]).shuffle(seed=0)

optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for start in range(0, len(mined), 128):
    sides = [model(model.preprocess(mined[start : start + 128][side]))["sentence_embedding"] for side in mined.column_names]
    optimizer.zero_grad()
    torch.nn.functional.triplet_margin_loss(*map(torch.nn.functional.normalize, sides), margin=0.3).backward()
    optimizer.step()
after = evaluator(model)
print(f"{len(mined)} triplets; test_map@r {before['test_map@r']:.4f} before, {after[evaluator.primary_metric]:.4f} after")
