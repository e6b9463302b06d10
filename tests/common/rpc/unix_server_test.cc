// A service behind a unix socket that starts gRPC with its first caller.
#include "common/rpc/unix_server.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <sys/stat.h>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "proto/lr/v1/run.grpc.pb.h"

#include "common/rpc/transport.h"
#include "tests/support/status_matchers.h"

namespace lr::rpc {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

/// Echoes a reason; never ends a checkpoint call that waits.
class EchoService final : public v1::RunControl::CallbackService {
 public:
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::RunStatusRequest* /*request*/,
                                   v1::RunStatusReply* reply) override {
    reply->set_record_json("{}");
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class UnixServerTest : public ::testing::Test {
 protected:
  UnixServerTest() : guard_(boost::asio::make_work_guard(loop_)) {
    std::string name = (std::filesystem::temp_directory_path() / "lr-rpc-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    thread_ = std::thread([this] { loop_.run(); });
  }

  ~UnixServerTest() override {
    OnLoop([&] { server_.reset(); });
    guard_.reset();
    thread_.join();
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return folder_ + "/s.sock"; }

  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(loop_, [&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }

  lr::Status Listen(const std::string& where) {
    lr::Status status;
    OnLoop([&] {
      auto server = UnixServer::Listen(loop_, where, service_, 1 << 16);
      status = server.status();
      if (server.ok()) {
        server_ = std::move(server).value();
      }
    });
    return status;
  }

  grpc::Status Call() const {
    const auto stub = v1::RunControl::NewStub(OpenChannel("unix:" + path(), 1 << 16));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::RunStatusReply reply;
    return stub->Status(&context, {}, &reply);
  }

  static int CountThreads() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      count += entry.is_directory() ? 1 : 0;
    }
    return count;
  }

  std::string folder_;
  EchoService service_;
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::thread thread_;
  std::unique_ptr<UnixServer> server_;
};

TEST_F(UnixServerTest, CostsNothingUntilSomebodyConnectsAndServesManyThen) {
  const int before = CountThreads();
  ASSERT_THAT(Listen(path()), IsOk());
  EXPECT_EQ(CountThreads(), before);
  for (int caller = 0; caller < 5; ++caller) {
    EXPECT_TRUE(Call().ok());
  }
}

TEST_F(UnixServerTest, TheSocketIsOursAloneAndGoneAfterwards) {
  ASSERT_THAT(Listen(path()), IsOk());

  struct stat info {};

  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  OnLoop([&] { server_.reset(); });
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(UnixServerTest, ASocketLeftBehindIsReplacedAServedOneIsNot) {
  {
    boost::asio::local::stream_protocol::acceptor dead(loop_, path());  // closes, leaves its file
  }
  ASSERT_TRUE(std::filesystem::exists(path()));
  ASSERT_THAT(Listen(path()), IsOk());
  auto first = std::move(server_);
  EXPECT_THAT(Listen(path()), StatusIs(StatusCode::kAlreadyExists, HasSubstr(path())));
  EXPECT_TRUE(Call().ok());
  OnLoop([&] { first.reset(); });
}

TEST_F(UnixServerTest, AnyOtherFileIsLeftAlone) {
  std::ofstream(path()) << "precious";
  EXPECT_THAT(Listen(path()), StatusIs(StatusCode::kAlreadyExists, HasSubstr("no socket")));
  EXPECT_TRUE(std::filesystem::is_regular_file(path()));
}

TEST_F(UnixServerTest, APathTheSystemCannotHoldIsRefusedWithTheLimit) {
  EXPECT_THAT(Listen(folder_ + "/" + std::string(200, 'x')),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("the system allows 107")));
  EXPECT_THAT(Listen("/nowhere/at/all.sock"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("No such file or directory")));
}

TEST_F(UnixServerTest, EndingItUnderCallersDoesNotHang) {
  for (int round = 0; round < 10; ++round) {
    ASSERT_THAT(Listen(path()), IsOk());
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] { (void)Call(); });
    }
    OnLoop([&] { server_.reset(); });
    for (std::thread& caller : callers) {
      caller.join();
    }
  }
}

}  // namespace
}  // namespace lr::rpc
