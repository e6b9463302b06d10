// Pickles of plain values, byte for byte as printed in checkpoints.md 4.4.4; numbers of every size
// survive the way there and back.
#include "worker/checkpoint/dcp/dcp_value.h"

#include <limits>

#include "tests/support/status_matchers.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

std::string ToHex(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  }
  return hex;
}

TEST(DcpValueTest, PicklesAsPythonDoes) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(ToHex(PickleDcpValue(1e-05)), "8002473ee4f8b588e368f12e");
  EXPECT_EQ(ToHex(PickleDcpValue(std::vector<double>{0.9, 0.999})),
            "8002473feccccccccccccd473feff7ced916872b8671002e");
  EXPECT_EQ(ToHex(PickleDcpValue(DcpValue())), "80024e2e");
  EXPECT_EQ(ToHex(PickleDcpValue(false)), "8002892e");
  EXPECT_EQ(ToHex(PickleDcpValue(true)), "8002882e");
  EXPECT_EQ(ToHex(PickleDcpValue(int64_t{1})), "80024b012e");
  EXPECT_EQ(ToHex(PickleDcpValue(int64_t{300})), "80024d2c012e");
  EXPECT_EQ(ToHex(PickleDcpValue(int64_t{70000})), "80024a701101002e");
  EXPECT_EQ(ToHex(PickleDcpValue(Texts{})), "80025d71002e");
  EXPECT_EQ(ToHex(PickleDcpValue(Texts{"a"})), "80025d71005801000000617101612e");
  EXPECT_EQ(ToHex(PickleDcpValue(Texts{"a", "b"})),
            "80025d71002858010000006171015801000000627102652e");
}

TEST(DcpValueTest, EveryValueComesBack) {
  std::vector<std::string> many;
  for (int i = 0; i < 2001; ++i) {
    many.push_back(fmt::format("layer.{}.weight", i));
  }
  const std::vector<DcpValue> values = {DcpValue(),
                                        true,
                                        0.1,
                                        std::string("text"),
                                        std::vector<double>{},
                                        std::vector<double>{1.0, 2.0, 3.0, 4.0},
                                        many};
  for (const DcpValue& value : values) {
    const auto back = ParseDcpValue(PickleDcpValue(value));
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(*back, value);
  }
  for (const int64_t number : {int64_t{0},
                               int64_t{-1},
                               int64_t{255},
                               int64_t{65536},
                               int64_t{-2147483648},
                               int64_t{2147483648},
                               int64_t{-2147483649},
                               int64_t{1} << 40,
                               -(int64_t{1} << 47),
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(ParseDcpValue(PickleDcpValue(number)).value(), DcpValue(number));
  }
}

TEST(DcpValueTest, RefusesNamesAndWhatRepeatsItself) {
  EXPECT_THAT(ParseDcpValue("\x80\x02"
                            "cos\nsystem\n."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("os.system")));
  std::string list =
      std::string("\x80\x02](X\x20\0\0\0", 9) + std::string(32, 'x') + std::string("q\0", 2);
  for (int i = 0; i < 50; ++i) {
    list += std::string("h\0", 2);
  }
  EXPECT_THAT(ParseDcpValue(list + "e."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("repeats")));
  EXPECT_THAT(ParseDcpValue("\x80\x02}."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no option")));
}

}  // namespace
}  // namespace lr::worker
