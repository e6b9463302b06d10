// The pickle reader on hand-made input: what it refuses and where; nothing costs stack or memory.
#include "worker/pickle/tensor_pickle.h"

#include "tests/support/status_matchers.h"
#include "worker/pickle/pickle_machine.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

/// A pickle around `body`, protocol 2.
Result<PickledTensors> Parse(const std::string& body) {
  return ParseTensorPickle("\x80\x02" + body);
}

TEST(TensorPickleTest, NamesThePlaceOfWhatItRefuses) {
  EXPECT_THAT(Parse("i"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("opcode 0x69")));
  EXPECT_THAT(Parse("."), StatusIs(StatusCode::kInvalidArgument, HasSubstr("byte 3")));
  EXPECT_THAT(Parse("]."), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no dictionary")));
  EXPECT_THAT(Parse("cos\nsystem\n)R."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("os.system")));
  EXPECT_THAT(Parse("h\x05."), StatusIs(StatusCode::kInvalidArgument, HasSubstr("slot 5")));
  EXPECT_THAT(Parse("}(K\x01u."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("without a value")));
  EXPECT_THAT(Parse("}t."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("without a beginning")));
  EXPECT_THAT(Parse("X\xff\xff\xff\x7f."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("end of the data")));
}

TEST(TensorPickleTest, DeepNestingAndCyclesCostNoStack) {
  EXPECT_FALSE(Parse(std::string(1'000'000, '(')).ok());
  std::string nested = ")";
  nested.append(500'000, '\x85');
  EXPECT_THAT(Parse(nested + "."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("deeper than 100")));
  EXPECT_THAT(Parse(std::string("}q\x00", 3) + "K\x01" + std::string("h\x00", 2) + "s."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("contains itself")));
}

/// A pickle of protocol 4 or 5 around `body`, in which a.b is known.
Result<PickleDocument> ParseNew(const std::string& body) {
  static constexpr std::string_view kKnown[] = {"a.b"};
  return ReadPickle("\x80\x04" + body, {.highest_protocol = 5, .globals = kKnown});
}

TEST(ReadPickleTest, ReadsObjectsWithTheirState) {
  const std::string bytes = std::string("\x8c\x01") + "a\x94\x8c\x01" + "b\x94\x93)\x81}\x8c\x01" +
                            "nJ\xfe\xff\xff\xffsb.";
  const auto document =
      ReadPickle(std::string_view(bytes),
                 {.highest_protocol = 4, .globals = std::array{std::string_view("a.b")}});
  ASSERT_THAT(document, IsOk());
  const PickleValue& object = (*document)[document->root];
  EXPECT_EQ(object.kind, PickleKind::kCall);
  EXPECT_EQ(object.text, "a.b");
  const PickleValue& state = (*document)[object.state];
  ASSERT_EQ(state.items.size(), 2U);
  EXPECT_EQ((*document)[state.items[0]].text, "n");
  EXPECT_EQ((*document)[state.items[1]].integer, -2);
}

TEST(ReadPickleTest, RefusesWhatTheDialectDoesNotHave) {
  EXPECT_THAT(ParseNew("cos\nsystem\n."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("os.system")));
  EXPECT_THAT(ParseNew("K\x01Q."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("outside the file")));
  EXPECT_THAT(ParseNew("\x80\x06."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("protocol 6")));
  EXPECT_THAT(ParseNew(std::string("\x95\xff\0\0\0\0\0\0\0", 9)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("frame of 255 bytes")));
  EXPECT_THAT(ParseNew(std::string("\x8d\0\0\0\0\0\0\0\x10", 9)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("end of the data")));
  EXPECT_THAT(ParseNew("cA\nb\n)R}b}b."), StatusIs(StatusCode::kInvalidArgument, HasSubstr("A.b")));
  EXPECT_THAT(ParseNew("ca\nb\n)R}b}b."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("second state")));
  EXPECT_THAT(ParseNew("Nr\xff\xff\xff\xff."),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no such slot")));
}

}  // namespace
}  // namespace lr::worker
