#pragma once
/// Waits for the sign that a program that is not ours leaves when its checkpoint is complete (C-6):
/// a file that is written anew. Looks every 100 ms from a thread of its own, since the file system
/// may be a slow one. Loop-confined.

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

class MarkerWatch {
 public:
  /// `found` is called once, on the loop, with the first path of `markers` whose file is newer than
  /// this call; never after the watch has ended.
  static std::unique_ptr<MarkerWatch> Start(boost::asio::io_context& loop,
                                            const ForeignCheckpoints& markers,
                                            std::function<void(const std::string& path)> found);

  virtual ~MarkerWatch() = default;
};

}  // namespace lr::launcher
