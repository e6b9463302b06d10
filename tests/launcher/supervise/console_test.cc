#include "launcher/supervise/console.h"

#include <array>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/supervise/process.h"

namespace lr::launcher {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (ssize_t got = 0; (got = read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

OutputChunk Line(const std::string& text) {
  return {.bytes = text + "\n", .lines = 1};
}

TEST(ConsoleTest, StreamsGoToTheirDescriptors) {
  Pipe out = *MakePipe();
  Pipe err = *MakePipe();
  {
    Console console(out.write_end.get(), err.write_end.get());
    const int source = console.AddSource(ConsoleStream::kOut, "p:");
    console.Write(ConsoleStream::kOut, source, Line("p:result"));
    console.Say("lr-launch: note\n");
    EXPECT_TRUE(console.Flush(5s));
  }
  out.write_end.Reset(-1);
  err.write_end.Reset(-1);
  EXPECT_EQ(ReadAll(out.read_end.get()), "p:result\n");
  EXPECT_EQ(ReadAll(err.read_end.get()), "lr-launch: note\n");
}

TEST(ConsoleTest, OneFileForBothKeepsTheOrder) {
  Pipe both = *MakePipe();
  {
    Console console(both.write_end.get(), both.write_end.get());
    const int source = console.AddSource(ConsoleStream::kOut, "");
    console.Write(ConsoleStream::kOut, source, Line("one"));
    console.Say("two\n");
    console.Write(ConsoleStream::kOut, source, Line("three"));
    EXPECT_TRUE(console.Flush(5s));
  }
  both.write_end.Reset(-1);
  EXPECT_EQ(ReadAll(both.read_end.get()), "one\ntwo\nthree\n");
}

TEST(ConsoleTest, SlowReaderBlocksNobodyAndDroppedLinesAreCounted) {
  Pipe out = *MakePipe();
  std::string text;
  std::thread reader;
  {
    Console console(out.write_end.get(), out.write_end.get());
    const int source = console.AddSource(ConsoleStream::kOut, "p:");
    for (int i = 0; i < 100'000; ++i) {  // 10 MB, while nobody reads
      console.Write(ConsoleStream::kOut, source, Line("p:" + std::string(96, 'x')));
    }
    console.Write(ConsoleStream::kOut, source, Line("p:last"));
    EXPECT_FALSE(console.Flush(0ms));
    reader = std::thread([&] { text = ReadAll(out.read_end.get()); });
    EXPECT_TRUE(console.Flush(10s));
  }
  out.write_end.Reset(-1);
  reader.join();
  EXPECT_THAT(text,
              AllOf(HasSubstr("lines dropped here: the console is slower than the worker"),
                    EndsWith("p:last\n")));
  EXPECT_LT(text.size(), 5U << 20);
}

TEST(ConsoleTest, ReaderThatWentAwayIsForgotten) {
  IgnoreBrokenPipes();
  Pipe out = *MakePipe();
  Console console(out.write_end.get(), out.write_end.get());
  out.read_end.Reset(-1);
  for (int i = 0; i < 100; ++i) {
    console.Say("nobody hears this\n");
  }
  EXPECT_TRUE(console.Flush(5s));
}

}  // namespace
}  // namespace lr::launcher
