// Holding a port for the workers' store, and naming who is in the way.
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/rendezvous/port_holder.h"
#include "launcher/rendezvous/port_owner.h"
#include "launcher/rendezvous/reach_probe.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;
using boost::asio::ip::tcp;
using lr::testing::IsOk;
using lr::testing::StatusIs;
using ::testing::HasSubstr;

/// Binds without address reuse, as a program that knows nothing of us.
boost::system::error_code BindPlainly(boost::asio::io_context& loop, int port) {
  tcp::acceptor acceptor(loop);
  boost::system::error_code error;
  acceptor.open(tcp::v4());
  acceptor.bind({tcp::v4(), static_cast<uint16_t>(port)}, error);
  return error;
}

TEST(PortHolderTest, RefusesOrdinaryBindsAndYieldsToAReusingStore) {
  boost::asio::io_context loop;
  const auto holder = PortHolder::Hold(0);
  ASSERT_THAT(holder, IsOk());
  EXPECT_TRUE(BindPlainly(loop, (*holder)->port()));
  const tcp::acceptor store(
      loop, {tcp::v4(), static_cast<uint16_t>((*holder)->port())}, /*reuse_addr=*/true);
  EXPECT_TRUE(store.is_open());
}

TEST(PortHolderTest, TwoLaunchersNeverHoldTheSamePort) {
  const auto first = PortHolder::Hold(0);
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(
      PortHolder::Hold((*first)->port()),
      StatusIs(StatusCode::kAlreadyExists, HasSubstr("reserved for the workers of another")));
  std::string notice;
  const auto other = HoldWorkerPort((*first)->port(), /*explicit_port=*/false, notice);
  ASSERT_THAT(other, IsOk());
  EXPECT_NE((*other)->port(), (*first)->port());
  EXPECT_THAT(notice, HasSubstr("uses the free port"));
}

TEST(PortHolderTest, ReleasesWithItsLife) {
  boost::asio::io_context loop;
  int port = 0;
  {
    const auto holder = PortHolder::Hold(0);
    ASSERT_THAT(holder, IsOk());
    port = (*holder)->port();
  }
  EXPECT_FALSE(BindPlainly(loop, port));
}

TEST(PortHolderTest, BusyPortNamesItsHolder) {
  boost::asio::io_context loop;
  const tcp::acceptor listener(loop, {tcp::v4(), 0});
  const auto holder = PortHolder::Hold(listener.local_endpoint().port());
  EXPECT_THAT(
      holder,
      StatusIs(StatusCode::kAlreadyExists, HasSubstr(fmt::format("in use by pid {}", getpid()))));
}

TEST(PortHolderTest, ExplicitPortIsNotReplacedADefaultIs) {
  boost::asio::io_context loop;
  const tcp::acceptor listener(loop, {tcp::v4(), 0});
  const int busy = listener.local_endpoint().port();
  std::string notice;
  EXPECT_THAT(HoldWorkerPort(busy, true, notice),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("")));
  EXPECT_EQ(notice, "");
  const auto other = HoldWorkerPort(busy, false, notice);
  ASSERT_THAT(other, IsOk());
  EXPECT_NE((*other)->port(), busy);
  EXPECT_THAT(notice, HasSubstr(fmt::format("free port {}", (*other)->port())));
}

/// A /proc of two processes; the second one has the socket.
class PortOwnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("lr_port_owner_{}", getpid());
    fs::remove_all(root_);
    for (const char* folder : {"net", "17/fd", "19/fd", "self"}) {
      fs::create_directories(root_ / folder);
    }
    const std::string head = "  sl  local_address rem_address   st\n";
    Write("net/tcp",
          head +
              "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 "
              "4242 1 0\n   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 "
              "00000000 0 0 99 1 0\n");
    Write("net/tcp6", head);
    fs::create_symlink("socket:[1]", root_ / "17/fd/3");
    fs::create_symlink("socket:[4242]", root_ / "19/fd/5");
    Write("19/cmdline", std::string("python3\0train.py\0", 17));
  }

  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
  }

  fs::path root_;
};

TEST_F(PortOwnerTest, FindsTheProcessAndItsCommand) {
  const auto owner = FindPortOwner(29500, root_);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, 19);
  EXPECT_EQ(owner->command, "python3 train.py");
  EXPECT_EQ(DescribeBusyPort(29500, root_), "port 29500 is in use by pid 19 (python3 train.py)");
}

TEST_F(PortOwnerTest, SaysWhenNobodyIsVisible) {
  EXPECT_EQ(DescribeBusyPort(22, root_), "port 22 is in use by a process that is not visible");
  EXPECT_EQ(DescribeBusyPort(23, root_), "port 23 is in use by a process that is not visible");
  EXPECT_FALSE(FindPortOwner(23, "/nonexistent"));
}

TEST(ReachProbeTest, AnyAnswerProvesTheWay) {
  boost::asio::io_context loop;
  const tcp::acceptor listener(loop, {tcp::v4(), 0});
  const auto held = PortHolder::Hold(0);
  ASSERT_THAT(held, IsOk());
  std::vector<ReachAnswer::Kind> answers;
  const auto done = [&](const ReachAnswer& answer) {
    answers.push_back(answer.kind);
    EXPECT_EQ(answer.problem, "");
  };
  const ReachProbe open(
      loop, "127.0.0.1", listener.local_endpoint().port(), std::chrono::seconds(3), done);
  const ReachProbe closed(loop, "127.0.0.1", (*held)->port(), std::chrono::seconds(3), done);
  loop.run();
  EXPECT_THAT(
      answers,
      ::testing::UnorderedElementsAre(ReachAnswer::Kind::kConnected, ReachAnswer::Kind::kRefused));
}

TEST(ReachProbeTest, AnUnreachableAddressIsAProblem) {
  boost::asio::io_context loop;
  std::string answer;
  const ReachProbe probe(loop,
                         "fe80::1",  // link-local without a zone leads nowhere
                         9,
                         std::chrono::seconds(3),
                         [&](const ReachAnswer& told) { answer = told.problem; });
  loop.run();
  EXPECT_THAT(answer, HasSubstr("cannot reach [fe80::1]:9: "));
}

TEST(ReachProbeTest, SilenceIsAProblemAfterTheLimit) {
  boost::asio::io_context loop;
  tcp::acceptor full(loop);  // a listener whose queue is full drops what comes, as a firewall does
  full.open(tcp::v4());
  full.bind({boost::asio::ip::address_v4::loopback(), 0});
  full.listen(0);
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < 4; ++i) {
    crowd.emplace_back(loop, tcp::v4());
    crowd.back().async_connect(full.local_endpoint(), [](const boost::system::error_code&) {});
  }
  std::string answer;
  const ReachProbe probe(loop,
                         "127.0.0.1",
                         full.local_endpoint().port(),
                         std::chrono::milliseconds(50),
                         [&](const ReachAnswer& told) { answer = told.problem; });
  loop.run_for(std::chrono::milliseconds(500));
  EXPECT_THAT(answer, HasSubstr("no answer within 50 ms"));
}

TEST(ReachProbeTest, NoAnswerAfterItsEnd) {
  boost::asio::io_context loop;
  {
    const ReachProbe probe(loop, "127.0.0.1", 9, std::chrono::seconds(1), [](const ReachAnswer&) {
      FAIL() << "answered";
    });
  }
  loop.run();
}

}  // namespace
}  // namespace lr::launcher
