#include "base/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "smelt/error.h"
#include "support/errors.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

class Npy : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("smelt_npy_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(Npy, array_survives_a_round_trip) {
  const Tensor t = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6.5f});
  write_npy(folder_ / "a.npy", t);
  const Tensor back = read_npy(folder_ / "a.npy");
  EXPECT_EQ(back.type(), DType::f32);
  EXPECT_EQ(back.shape(), t.shape());
  EXPECT_EQ(back.to_doubles(), t.to_doubles());
}

TEST_F(Npy, archive_keeps_names_types_and_empty_and_scalar_shapes) {
  write_npz(
      folder_ / "a.npz",
      {{"x/y", Tensor::of<int64_t>({3}, {1, -2, 3})}, {"empty", Tensor::zeros(DType::f16, {0, 4})}, {"s", Tensor::scalar(2.5)}});
  const auto back = read_npz(folder_ / "a.npz");
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back.at("x/y").to_ints(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(back.at("empty").shape(), (Shape{0, 4}));
  EXPECT_EQ(back.at("s").shape(), Shape{});
  EXPECT_EQ(back.at("s").to_doubles().at(0), 2.5);
}

TEST_F(Npy, cut_off_file_is_an_error_that_names_it) {
  write_npy(folder_ / "a.npy", Tensor::of<float>({4}, {1, 2, 3, 4}));
  std::string text = read_text(folder_ / "a.npy");
  write_text(folder_ / "cut.npy", std::string_view(text).substr(0, text.size() - 3));
  try {
    read_npy(folder_ / "cut.npy");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("cut.npy"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("needs 16 bytes"), std::string::npos) << e.what();
  }
}

TEST_F(Npy, extents_are_numbers_of_0_and_more) {
  write_npy(folder_ / "a.npy", Tensor::of<float>({1, 4}, {1, 2, 3, 4}));
  const std::string text = read_text(folder_ / "a.npy");
  for (const char* shape : {"(-1,4)", "(1,-4)", "(+1,4)", "(1.,4)"}) {
    std::string odd = text;
    odd.replace(odd.find("(1, 4)"), 6, shape);
    write_text(folder_ / "odd.npy", odd);
    EXPECT_THROW(read_npy(folder_ / "odd.npy"), Error) << shape;
  }
  EXPECT_EQ(read_npy(folder_ / "a.npy").shape(), (Shape{1, 4}));
}

TEST_F(Npy, every_truncation_of_an_archive_is_an_error_and_no_crash) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::of<float>({2}, {1, 2})}, {"y", Tensor::of<int32_t>({2}, {1, 2})}});
  const std::string text = read_text(folder_ / "a.npz");
  for (size_t n = 0; n < text.size(); ++n) {
    write_text(folder_ / "cut.npz", std::string_view(text).substr(0, n));
    EXPECT_THROW(read_npz(folder_ / "cut.npz"), Error) << n;
  }
}

TEST_F(Npy, damaged_archives_are_errors) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::of<float>({4}, {1, 2, 3, 4})}});
  const std::string good = read_text(folder_ / "a.npz");
  const size_t central = good.find("PK\x01\x02"), end64 = good.find("PK\x06\x06"), locator = good.find("PK\x06\x07");
  const auto said = [&](size_t at, const std::string& bytes) {
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    write_text(folder_ / "bad.npz", bad);
    return error_of([&] { read_npz(folder_ / "bad.npz"); });
  };
  EXPECT_EQ(said(0, "PK"), "");
  EXPECT_THAT(said(central - 1, "?"), HasSubstr("checksum"));
  EXPECT_THAT(said(central + 8, "\x01"), HasSubstr("encrypted"));
  ASSERT_NE(end64, std::string::npos);
  // Places near 2^64 and 2^63: 56 and 46 bytes further is the beginning again.
  EXPECT_THAT(said(locator + 8, "\xd8\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("damaged zip64 directory"));
  EXPECT_THAT(said(end64 + 48, "\xf0\xff\xff\xff\xff\xff\xff\x7f"), HasSubstr("damaged zip directory"));
}

/// Each would be unpacked again, and a small file take hours.
TEST_F(Npy, members_that_lie_on_top_of_each_other_are_refused) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::zeros(DType::f32, {1000})}});
  std::string bytes = read_text(folder_ / "a.npz");
  const size_t central = bytes.find("PK\x01\x02"), end64 = bytes.find("PK\x06\x06");
  const std::string entry = bytes.substr(central, end64 - central);
  constexpr size_t copies = 100;
  for (size_t i = 1; i < copies; ++i) bytes.insert(central, entry);
  const uint64_t moved = end64 + (copies - 1) * entry.size(), count = copies;
  std::memcpy(bytes.data() + moved + 32, &count, sizeof count);
  std::memcpy(bytes.data() + bytes.find("PK\x06\x07") + 8, &moved, sizeof moved);
  write_text(folder_ / "many.npz", bytes);
  EXPECT_THAT(error_of([&] { read_npz(folder_ / "many.npz"); }), HasSubstr("lies on top of others"));
}

TEST_F(Npy, versions_that_there_are_not_are_refused) {
  write_npy(folder_ / "a.npy", Tensor::of<float>({4}, {1, 2, 3, 4}));
  std::string text = read_text(folder_ / "a.npy");
  for (const char version : {'\0', '\4', '\xff'}) {
    text[6] = version;
    write_text(folder_ / "b.npy", text);
    EXPECT_THROW(read_npy(folder_ / "b.npy"), Error);
  }
}

TEST_F(Npy, bfloat16_is_written_as_ml_dtypes_writes_it) {
  write_npy(folder_ / "a.npy", Tensor::of<BFloat>({2}, {BFloat(1.5f), BFloat(-2.f)}));
  EXPECT_NE(read_text(folder_ / "a.npy").find("'<V2'"), std::string::npos);
  EXPECT_EQ(read_npy(folder_ / "a.npy").to_doubles(), (std::vector<double>{1.5, -2}));
}

}  // namespace
}  // namespace smelt
