// The run's token: what a proof depends on, and how often somebody may be wrong.
#include "launcher/rendezvous/run_token.h"

#include <cstdio>
#include <fstream>
#include <unistd.h>

#include "launcher/rendezvous/doorkeeper.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Side = RunToken::Side;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

class TokenFile {
 public:
  explicit TokenFile(const std::string& text)
      : path_(fmt::format("{}lr-token-{}", ::testing::TempDir(), getpid())) {
    std::ofstream(path_) << text;
  }

  ~TokenFile() { std::remove(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(RunTokenTest, IsReadWithoutTheWhiteSpaceAround) {
  const std::string secret(64, 'a');
  const TokenFile file("  " + secret + "\n");
  const auto token = RunToken::Read(file.path());
  ASSERT_THAT(token, IsOk());
  EXPECT_EQ(token->Prove(Side::kNode, "n", "h", "run"),
            RunToken(secret).Prove(Side::kNode, "n", "h", "run"));
}

TEST(RunTokenTest, UnusableFilesAreNamed) {
  EXPECT_THAT(RunToken::Read("/nowhere/token"), StatusIs(kInvalid, HasSubstr("/nowhere/token")));
  for (const std::string& text : {std::string(), std::string("short\n"), std::string(5000, 'x')}) {
    const TokenFile file(text);
    EXPECT_THAT(RunToken::Read(file.path()),
                StatusIs(kInvalid, AllOf(HasSubstr(file.path()), HasSubstr("not 32 to 4096"))));
  }
}

/// RFC 4231, test case 2, gives the primitive; the text around it is ours.
TEST(RunTokenTest, AProofHoldsForItsSideItsNoncesAndItsRunAlone) {
  const RunToken token(std::string(32, 's'));
  const std::string proof = token.Prove(Side::kNode, "node", "host", "run");
  EXPECT_EQ(proof.size(), 32u);
  EXPECT_TRUE(token.Check(proof, Side::kNode, "node", "host", "run"));
  EXPECT_FALSE(token.Check(proof, Side::kHost, "node", "host", "run"));
  EXPECT_FALSE(token.Check(proof, Side::kNode, "node2", "host", "run"));
  EXPECT_FALSE(token.Check(proof, Side::kNode, "node", "host2", "run"));
  EXPECT_FALSE(token.Check(proof, Side::kNode, "node", "host", "run2"));
  EXPECT_FALSE(token.Check(proof, Side::kNode, "nodeh", "ost", "run"));  // moved borders
  EXPECT_FALSE(token.Check(proof.substr(1), Side::kNode, "node", "host", "run"));
  EXPECT_FALSE(token.Check("", Side::kNode, "node", "host", "run"));
  EXPECT_FALSE(RunToken(std::string(32, 't')).Check(proof, Side::kNode, "node", "host", "run"));
}

TEST(RunTokenTest, NoncesAreNew) {
  EXPECT_NE(MakeNonce(), MakeNonce());
}

class DoorkeeperTest : public ::testing::Test {
 protected:
  const RunToken token_{std::string(32, 's')};
  Doorkeeper doorkeeper_{token_, "run"};
  Doorkeeper::Instant now_{std::chrono::hours(5)};

  std::optional<Refused> Try(const RunToken& token, const std::string& address) {
    const Doorkeeper::Challenge challenge = doorkeeper_.Ask("nonce");
    EXPECT_TRUE(token_.Check(challenge.proof, Side::kHost, "nonce", challenge.nonce, "run"));
    return doorkeeper_.Judge(token.Prove(Side::kNode, "nonce", challenge.nonce, "run"),
                             "nonce",
                             challenge.nonce,
                             address,
                             now_);
  }
};

TEST_F(DoorkeeperTest, TheRightTokenIsWelcomeAndAnotherIsNot) {
  EXPECT_FALSE(Try(token_, "10.0.0.1"));
  const auto refused = Try(RunToken(std::string(32, 't')), "10.0.0.2");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, RefusalCode::kWrongToken);
  EXPECT_EQ(refused->exit_code, 77);
  EXPECT_THAT(refused->text, AllOf(HasSubstr("wrong token"), HasSubstr("10.0.0.2")));
}

TEST_F(DoorkeeperTest, FiveWrongOnesAMinuteAndAddressAreEnough) {
  const RunToken wrong(std::string(32, 't'));
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Try(wrong, "10.0.0.2")->text, HasSubstr("another --rdzv-token-file"));
    now_ += std::chrono::seconds(1);
  }
  EXPECT_THAT(Try(token_, "10.0.0.2")->text, HasSubstr("5 tries"));  // not even the right one
  EXPECT_FALSE(Try(token_, "10.0.0.1"));                             // others are not disturbed
  now_ += std::chrono::seconds(61);
  EXPECT_FALSE(Try(token_, "10.0.0.2"));
}

}  // namespace
}  // namespace lr::launcher
