# pip install torch torchvision numpy
import csv
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.models import ConvNeXt_Tiny_Weights, convnext_tiny

folder = Path("pictures")  # in it a folder for each class
endings = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"}
files = sorted(f for f in folder.rglob("*") if f.suffix.lower() in endings)

weights = ConvNeXt_Tiny_Weights.DEFAULT
model = convnext_tiny(weights=weights).eval()
model.classifier[2] = torch.nn.Identity()  # 768 numbers a picture
prepare = weights.transforms()

vectors = []
with torch.inference_mode():
    for at in range(0, len(files), 32):
        batch = [Image.open(f).convert("RGB") for f in files[at : at + 32]]
        batch = torch.stack([prepare(picture) for picture in batch])
        vectors.append(model(batch).numpy())
np.save("pictures.npy", np.concatenate(vectors))

with open("pictures.csv", "w", newline="", encoding="utf-8") as table:
    rows = csv.writer(table)
    rows.writerow(["filename", "label"])
    rows.writerows([f"{f.parent.name}/{f.name}", f.parent.name] for f in files)
