#include "launcher/supervise/output_pump.h"

#include <array>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace lr::launcher {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr std::chrono::milliseconds kPartialLineWait{200};
constexpr int kMostReadsInDrain =
    64;  // 4 MiB: a helper that writes without end must not hold the report

}  // namespace

/// Outlives the pump while a read is under way; its handlers hold it weakly.
class OutputPump::State : public std::enable_shared_from_this<OutputPump::State> {
 public:
  State(boost::asio::io_context& loop,
        Console& console,
        ConsoleStream stream,
        const std::string& prefix,
        Descriptor read_end)
      : console_(console),
        stream_(stream),
        prefixer_(prefix),
        source_(console.AddSource(stream, prefix)),
        pipe_(loop, read_end.Release()),
        partial_timer_(loop) {
    pipe_.non_blocking(true);
  }

  void Read() {
    pipe_.async_read_some(
        boost::asio::buffer(buffer_),
        [weak = weak_from_this()](const boost::system::error_code& error, size_t size) {
          if (const auto self = weak.lock()) {
            self->OnRead(error, size);
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
    FlushPartial();
  }

  const TailBuffer& tail() const { return tail_; }

 private:
  void OnRead(const boost::system::error_code& error, size_t size) {
    if (error == boost::asio::error::operation_aborted) {
      return;
    }
    if (error) {  // end of file: every holder of the pipe is gone
      FlushPartial();
      pipe_.close();
      return;
    }
    Take(size);
    Read();
  }

  void Take(size_t size) {
    const std::string_view bytes(buffer_.data(), size);
    tail_.Append(bytes);
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

  void FlushPartial() {
    partial_timer_.cancel();
    console_.Write(stream_, source_, prefixer_.FlushPartial());
  }

  Console& console_;
  ConsoleStream stream_;
  LinePrefixer prefixer_;
  int source_;
  TailBuffer tail_;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer partial_timer_;
  std::array<char, kReadBytes> buffer_;
};

OutputPump::OutputPump(boost::asio::io_context& loop,
                       Console& console,
                       ConsoleStream stream,
                       const std::string& prefix,
                       Descriptor read_end)
    : state_(std::make_shared<State>(loop, console, stream, prefix, std::move(read_end))) {
  state_->Read();
}

OutputPump::~OutputPump() = default;

void OutputPump::Drain() {
  state_->Drain();
}

const TailBuffer& OutputPump::tail() const {
  return state_->tail();
}

}  // namespace lr::launcher
