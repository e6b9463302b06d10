#include "launcher/supervise/output_pump.h"

#include <array>
#include <fcntl.h>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/supervise/line_filter.h"

namespace lr::launcher {
namespace {

constexpr size_t kReadBytes = 256 * 1024;
constexpr std::chrono::milliseconds kPartialLineWait{200};
constexpr std::chrono::seconds kLongestHold{1};  // a worker waits no longer for a busy disk
constexpr int kMostReadsInDrain =
    16;  // 4 MiB: a helper that writes without end must not hold the report

}  // namespace

/// Outlives the pump while a read is under way; its handlers hold it weakly.
class OutputPump::State : public std::enable_shared_from_this<OutputPump::State> {
 public:
  State(boost::asio::io_context& loop,
        OutputSinks sinks,
        ConsoleStream stream,
        StreamOutput output,
        Descriptor read_end)
      : loop_(loop),
        console_(sinks.console),
        logs_(sinks.logs),
        stream_(stream),
        output_(std::move(output)),
        prefixer_(output_.prefix, output_.whole_lines),
        filter_(output_.filters, output_.filtered_prefix),
        source_(console_.AddSource(stream, output_.prefix)),
        pipe_(loop, read_end.Release()),
        partial_timer_(loop),
        hold_timer_(loop) {
    pipe_.non_blocking(true);
    fcntl(pipe_.native_handle(), F_SETPIPE_SZ, kReadBytes);  // fewer switches between worker and us
    if (!output_.file.empty()) {
      file_ = logs_.Open(output_.file);
    }
    if (!output_.filtered_file.empty()) {
      filtered_file_ = logs_.Open(output_.filtered_file);
    }
  }

  /// Waits, and reads only in the handler: bytes that the loop had read already, but not yet handed
  /// over when the worker's end is handled, would be lost.
  void Read() {
    pipe_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const boost::system::error_code& error) {
                       const auto self = weak.lock();
                       if (!error && self) {
                         self->OnReadable();
                       }
                     });
  }

  void Drain() {
    boost::system::error_code error;
    for (int reads = 0; reads < kMostReadsInDrain && pipe_.is_open(); ++reads) {
      const size_t size = pipe_.read_some(boost::asio::buffer(buffer_), error);
      if (error) {
        break;
      }
      Take(size);
    }
    Finish();
  }

  void FitTerminal() { launcher::FitTerminal(pipe_.native_handle()); }

  const TailBuffer& tail() const { return tail_; }

 private:
  void OnReadable() {
    boost::system::error_code error;
    const size_t size = pipe_.read_some(boost::asio::buffer(buffer_), error);
    if (error && error != boost::asio::error::would_block &&
        error !=
            boost::asio::error::interrupted) {  // end of file: every holder of the pipe is gone
      Finish();
      pipe_.close();
      return;
    }
    Take(size);
    if (!HeldByDisk()) {
      Read();
    }
  }

  /// While the disk is busy the pipe is left alone until there is room, but not for long.
  bool HeldByDisk() {
    if (!file_ || disk_stands_still_) {
      return false;
    }
    const bool held = logs_.Hold(*file_, [weak = weak_from_this(), &loop = loop_] {
      boost::asio::post(loop, [weak] {
        if (const auto self = weak.lock()) {
          self->OnRoom();
        }
      });
    });
    if (held) {
      hold_timer_.expires_after(kLongestHold);
      hold_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (!error && self) {
          self->disk_stands_still_ = true;
          self->Read();
        }
      });
    }
    return held;
  }

  void OnRoom() {
    hold_timer_.cancel();
    if (!std::exchange(disk_stands_still_, false)) {
      Read();
    }
  }

  void Take(size_t size) {
    if (size == 0) {
      return;
    }
    const std::string_view bytes(buffer_.data(), size);
    tail_.Append(bytes);
    if (file_) {
      logs_.Write(*file_, std::string(bytes));
    }
    if (filtered_file_) {
      logs_.Write(*filtered_file_, filter_.Feed(bytes));
    }
    if (output_.to_console) {
      Show(bytes);
    }
  }

  void Show(std::string_view bytes) {
    console_.Write(stream_, source_, prefixer_.Feed(bytes));
    if (prefixer_.has_partial()) {
      ArmPartialTimer();
    } else {
      partial_timer_.cancel();
    }
  }

  void ArmPartialTimer() {
    partial_timer_.expires_after(kPartialLineWait);
    partial_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) {
        self->FlushPartial();
      }
    });
  }

  void Finish() {
    FlushPartial();
    if (filtered_file_) {
      logs_.Write(*filtered_file_, filter_.Finish());
    }
  }

  void FlushPartial() {
    partial_timer_.cancel();
    console_.Write(stream_, source_, prefixer_.FlushPartial());
  }

  boost::asio::io_context& loop_;
  Console& console_;
  LogWriter& logs_;
  ConsoleStream stream_;
  StreamOutput output_;
  LinePrefixer prefixer_;
  LineFilter filter_;
  std::optional<int> file_;
  std::optional<int> filtered_file_;
  bool disk_stands_still_ = false;  ///< and room will be told of
  int source_;
  TailBuffer tail_;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer partial_timer_;
  boost::asio::steady_timer hold_timer_;
  std::array<char, kReadBytes> buffer_;
};

OutputPump::OutputPump(boost::asio::io_context& loop,
                       OutputSinks sinks,
                       ConsoleStream stream,
                       StreamOutput output,
                       Descriptor read_end)
    : state_(std::make_shared<State>(loop, sinks, stream, std::move(output), std::move(read_end))) {
  state_->Read();
}

OutputPump::~OutputPump() = default;

void OutputPump::Drain() {
  state_->Drain();
}

void OutputPump::FitTerminal() {
  state_->FitTerminal();
}

const TailBuffer& OutputPump::tail() const {
  return state_->tail();
}

}  // namespace lr::launcher
