#pragma once
/// Which blocks of a module tree become sharding units, and which parameters each one manages
/// (sharded_training.md 1.3, 1.4, 2.8). Reads the tree once, before anything is sharded; a pure
/// decision over it. The same on all ranks, as their trees are.

#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "common/base/status.h"
#include "worker/parallel/parallel_options.h"
#include "worker/parallel/sharded_unit.h"
#include "worker/parallel/unit_module.h"

namespace lr::worker {

struct UnitSelection {
  struct Unit {
    std::string name;              ///< full name of the block, "" for the root
    UnitModule* module = nullptr;  ///< null for a root that is no UnitModule
    std::vector<UnitParameter> parameters;
  };

  std::vector<Unit> units;  ///< children before parents; the root last
  std::vector<UnitParameter> ignored;
  std::vector<std::string> warnings;
};

/// kInvalidArgument: no source, both sources, a name that matches nothing (the present ones are
/// listed), a bad regex. kFailedPrecondition: a tensor shared between two units, a parameter that
/// cannot be cut (0-d, empty, not contiguous), trainable parameters of different dtypes in a unit.
Result<UnitSelection> SelectUnits(torch::nn::Module& root, const WrapRequest& request);

/// Classes of the blocks below `root` that can form units, each once.
std::vector<std::string> UnitClassesIn(const torch::nn::Module& root);

/// "lr::worker::ACTEncoderLayerImpl" -> "ACTEncoderLayer".
std::string UnitClassName(const torch::nn::Module& module);

}  // namespace lr::worker
