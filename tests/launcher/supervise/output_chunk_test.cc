#include "launcher/supervise/output_chunk.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

/// Feeds the parts one after the other and returns all bytes that came out.
std::string Emitted(LinePrefixer& prefixer, const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += prefixer.Feed(part).bytes;
  }
  return text;
}

TEST(LinePrefixerTest, EveryLineGetsThePrefix) {
  LinePrefixer prefixer("[default0]:");
  EXPECT_EQ(Emitted(prefixer, {"a\nb\n\nc\n"}),
            "[default0]:a\n[default0]:b\n[default0]:\n[default0]:c\n");
  EXPECT_FALSE(prefixer.has_partial());
}

TEST(LinePrefixerTest, LinesAreJoinedAcrossReads) {
  LinePrefixer prefixer("p:");
  EXPECT_EQ(Emitted(prefixer, {"he", "l", "lo\nwo", "rld\n"}), "p:hello\np:world\n");
}

TEST(LinePrefixerTest, HeldLineIsFlushedAndContinuedWithoutASecondPrefix) {
  LinePrefixer prefixer("p:");
  EXPECT_TRUE(prefixer.Feed("Password").empty());
  const OutputChunk partial = prefixer.FlushPartial();
  EXPECT_EQ(partial.bytes, "p:Password");
  EXPECT_TRUE(partial.ends_open);
  EXPECT_TRUE(prefixer.FlushPartial().empty());
  const OutputChunk rest = prefixer.Feed(": \nnext\n");
  EXPECT_EQ(rest.bytes, ": \np:next\n");
  EXPECT_TRUE(rest.continues);
  EXPECT_FALSE(rest.ends_open);
}

TEST(LinePrefixerTest, ProgressBarsKeepTheirCarriageReturns) {
  LinePrefixer prefixer("p:");
  EXPECT_EQ(Emitted(prefixer, {"10%\r20%\r", "30%\r\n"}), "p:10%\rp:20%\rp:30%\r\n");
  LinePrefixer leading("p:");
  std::string text = Emitted(leading, {"\r10%"});
  text += leading.FlushPartial().bytes;
  text += Emitted(leading, {"\r20%\n"});
  EXPECT_EQ(text, "\rp:10%\rp:20%\n");
}

TEST(LinePrefixerTest, BytesThatAreNotTextPass) {
  LinePrefixer prefixer("p:");
  const std::string bytes("\xff\x00\xc3\n", 4);
  EXPECT_EQ(Emitted(prefixer, {bytes}), "p:" + bytes);
}

TEST(LinePrefixerTest, EndlessLineIsPassedOnInParts) {
  LinePrefixer prefixer("p:");
  size_t emitted = 0;
  for (int i = 0; i < 100; ++i) {
    emitted += prefixer.Feed(std::string(10'000, 'x')).bytes.size();
  }
  EXPECT_GT(emitted, 900'000U);
}

TEST(LinePrefixerTest, WithoutAPrefixLinesStayWhole) {
  LinePrefixer plain("");
  EXPECT_EQ(Emitted(plain, {"a", "b\nc"}), "ab\n");
  EXPECT_TRUE(plain.has_partial());
}

TEST(LinePrefixerTest, RawBytesPassAtOnce) {
  LinePrefixer raw("", false);
  const OutputChunk chunk = raw.Feed("a\nb");
  EXPECT_EQ(chunk.bytes, "a\nb");
  EXPECT_TRUE(chunk.ends_open);
  EXPECT_FALSE(raw.has_partial());
  EXPECT_TRUE(raw.Feed("\rc").bar);
  EXPECT_TRUE(raw.Feed("d").continues);
  EXPECT_FALSE(raw.Feed("\n").ends_open);
}

TEST(LineMergerTest, WholeLinesNeverMix) {
  LineMerger merger(false);
  LinePrefixer a("a:");
  LinePrefixer b("b:");
  std::string text;
  a.Feed("half");
  text += merger.Merge(1, "a:", a.FlushPartial());
  text += merger.Merge(2, "b:", b.Feed("line\n"));
  text += merger.Merge(1, "a:", a.Feed(" more\n"));
  EXPECT_EQ(text, "a:half\nb:line\na: more\n");
}

TEST(LineMergerTest, BarIsClearedOnATerminalAndClosedInAFile) {
  const auto merged = [](bool terminal) {
    LineMerger merger(terminal);
    LinePrefixer a("a:");
    LinePrefixer b("b:");
    return merger.Merge(1, "a:", a.Feed("50%\r")) + merger.Merge(2, "b:", b.Feed("x\n")) +
           merger.Merge(1, "a:", a.Feed("60%\r"));
  };
  EXPECT_EQ(merged(true), "a:50%\r\r\x1b[Kb:x\na:60%\r");
  EXPECT_EQ(merged(false), "a:50%\r\nb:x\na:60%\r");
}

TEST(LineMergerTest, OneBarAloneIsUndisturbed) {
  LineMerger merger(true);
  LinePrefixer a("a:");
  EXPECT_EQ(merger.Merge(1, "a:", a.Feed("1%\r")) + merger.Merge(1, "a:", a.Feed("2%\r")) +
                merger.Merge(1, "a:", a.Feed("done\n")),
            "a:1%\ra:2%\ra:done\n");
}

}  // namespace
}  // namespace lr::launcher
