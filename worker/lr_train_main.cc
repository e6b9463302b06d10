// lr-train: the native trainer, one process per rank. Everything is in worker/train.
#include "worker/train/train_main.h"

int main(int argc, char** argv) {
  return lr::worker::TrainMain({argv + 1, argv + argc}, nullptr);
}
