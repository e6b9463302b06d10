#pragma once
/// The field table of the training configuration, as a description over a live object. Used by the
/// command line, the configuration files, the help and the writer of train_config.json.

#include "common/config/group.h"
#include "worker/train/train_config.h"

namespace lr::worker {

/// Every field but the policy's own, which PolicyConfig::Describe declares.
void DescribeTrainConfig(TrainConfig& config, config::Group& group);

/// The fields follow from `type`; setting another type starts from that type's defaults.
void DescribeOptimizer(OptimizerConfig& config, config::Group& group);
void DescribeScheduler(SchedulerConfig& config, config::Group& group);

}  // namespace lr::worker
