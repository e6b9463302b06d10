#include "launcher/rendezvous/sequence.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lr::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Kept(const SentMessages<std::string>& sent) {
  std::vector<std::string> kept;
  sent.ForEach([&](const std::string& message, uint64_t number) {
    kept.push_back(message + std::to_string(number));
  });
  return kept;
}

TEST(SequenceTest, WhatIsNotConfirmedIsKeptWithItsNumber) {
  SentMessages<std::string> sent;
  EXPECT_EQ(sent.Add("a"), 1u);
  EXPECT_EQ(sent.Add("b"), 2u);
  EXPECT_EQ(sent.Add("c"), 3u);
  EXPECT_TRUE(sent.Confirm(0));
  EXPECT_THAT(Kept(sent), ElementsAre("a1", "b2", "c3"));
  EXPECT_TRUE(sent.Confirm(2));
  EXPECT_TRUE(sent.Confirm(1));  // older news
  EXPECT_THAT(Kept(sent), ElementsAre("c3"));
  EXPECT_TRUE(sent.Confirm(3));
  EXPECT_THAT(Kept(sent), IsEmpty());
  EXPECT_EQ(sent.Add("d"), 4u);
  EXPECT_THAT(Kept(sent), ElementsAre("d4"));
}

TEST(SequenceTest, WhatWasNeverSentCannotBeConfirmed) {
  SentMessages<std::string> sent;
  sent.Add("a");
  EXPECT_FALSE(sent.Confirm(2));
  EXPECT_THAT(Kept(sent), ElementsAre("a1"));
}

TEST(SequenceTest, TooMuchIsFull) {
  SentMessages<int> sent;
  for (size_t i = 0; i < SentMessages<int>::kMost; ++i) {
    sent.Add(0);
  }
  EXPECT_FALSE(sent.full());
  sent.Add(0);
  EXPECT_TRUE(sent.full());
  EXPECT_TRUE(sent.Confirm(1));
  EXPECT_FALSE(sent.full());
}

TEST(SequenceTest, ArrivalsAreNextRepeatedOrTooFar) {
  ReceivedMessages received;
  EXPECT_EQ(received.Take(2), Arrival::kGap);
  EXPECT_EQ(received.Take(1), Arrival::kNext);
  EXPECT_EQ(received.Take(1), Arrival::kRepeated);
  EXPECT_EQ(received.Take(0), Arrival::kRepeated);
  EXPECT_EQ(received.Take(2), Arrival::kNext);
  EXPECT_EQ(received.Take(4), Arrival::kGap);
  EXPECT_EQ(received.last(), 2u);
}

}  // namespace
}  // namespace lr::launcher
