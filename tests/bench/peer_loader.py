"""Items per second of the Python loader on the dataset that lr-bench-loader reads: ROOT WORKERS [BATCHES]."""
import sys
import time

import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

BATCH, WARM_UP = 8, 16

if __name__ == "__main__":
    root, workers = sys.argv[1], int(sys.argv[2])
    batches = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    torch.set_num_threads(1)
    dataset = LeRobotDataset("lr/bench", root=root, video_backend="pyav")
    epochs = 1 + (WARM_UP + batches) * BATCH // len(dataset)
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=workers, drop_last=True,
                                         sampler=torch.utils.data.RandomSampler(dataset, num_samples=epochs * len(dataset), replacement=True))
    for number, batch in enumerate(loader):
        if number == WARM_UP:
            start = time.perf_counter()
        if number == WARM_UP + batches:
            break
    print(f"{batches * BATCH / (time.perf_counter() - start):.1f} items/s")
