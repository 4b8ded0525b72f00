#include "ops/core/shared_forms.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "ops/core/packed_weights.h"

namespace smelt::ops {
namespace {

namespace fs = std::filesystem;

constexpr int64_t elements_of = 8192;

Tensor weights(float first) {
  Tensor t = Tensor::zeros(DType::f32, {elements_of});
  t.data<float>()[0] = first;
  return t;
}

/// The form that a store gives out, and whether it was packed for that.
struct Packed {
  Tensor form;
  bool anew = false;
};
Packed packed(WeightStore& store, const Tensor& constant, const char* name = "doubled") {
  Packed p;
  const FormKind is{DType::f32, {elements_of}};
  p.form = store.packed(constant, name, is, [&] {
    p.anew = true;
    Tensor form = Tensor::empty(is.type, is.shape);
    for (int64_t i = 0; i < elements_of; ++i) form.data<float>()[i] = 2 * constant.data<float>()[i];
    return form;
  });
  return p;
}

TEST(SharedForms, of_equal_weights_are_packed_once_for_all_stores_that_share) {
  WeightStore first, second, apart(0);
  const Packed a = packed(first, weights(1));
  const Packed b = packed(second, weights(1));  // other memory
  EXPECT_TRUE(a.anew);
  EXPECT_FALSE(b.anew);
  EXPECT_EQ(a.form.raw(), b.form.raw());
  EXPECT_EQ(second.bytes(), b.form.nbytes());
  EXPECT_EQ(second.bytes_made(), 0);
  EXPECT_TRUE(packed(apart, weights(1)).anew);
  EXPECT_TRUE(packed(second, weights(1), "another form").anew);
}

TEST(SharedForms, of_one_name_and_two_sizes_are_two_forms) {
  WeightStore store;
  const Tensor constant = weights(1);
  for (const int64_t size : {elements_of / 2, elements_of, 2 * elements_of}) {
    const FormKind is{DType::f32, {size}};
    const Tensor form = store.packed(constant, "says too little", is, [&] { return Tensor::zeros(is.type, is.shape); });
    EXPECT_EQ(form.shape(), is.shape);
    EXPECT_EQ(form.nbytes(), 4 * size);
  }
}

TEST(SharedForms, of_weights_that_differ_anywhere_are_not_shared) {
  WeightStore first, second;
  packed(first, weights(1));
  for (const int64_t at : {int64_t{0}, int64_t{1}, elements_of / 2 + 3, elements_of - 1}) {
    Tensor other = weights(1);
    other.data<float>()[at] = 5;
    const Packed p = packed(second, other);
    EXPECT_TRUE(p.anew) << at;
    EXPECT_EQ(p.form.data<float>()[at], 10) << at;
  }
}

TEST(SharedForms, live_as_long_as_a_store_that_holds_them_whichever_made_them) {
  WeightStore second;
  {
    WeightStore first;
    packed(first, weights(3));
    packed(second, weights(3));
  }
  WeightStore third;
  const Packed p = packed(third, weights(3));
  EXPECT_FALSE(p.anew);
  EXPECT_EQ(p.form.data<float>()[0], 6);
}

TEST(SharedForms, are_forgotten_with_the_last_store) {
  for (int i = 0; i < 500; ++i) {
    WeightStore store;
    EXPECT_TRUE(packed(store, weights(4)).anew);
  }
}

/// A model that is exported anew in place while a session of the old one lives: the old one's mapping shows the new bytes, its forms do not.
TEST(SharedForms, of_a_file_that_was_written_to_in_place_are_not_shared) {
  const fs::path file = fs::path(testing::TempDir()) / ("smelt_shared_" + std::to_string(::getpid()));
  const auto constant_of = [](const std::shared_ptr<MappedFile>& mapped) {
    return Tensor::borrow(DType::f32, {elements_of}, const_cast<uint8_t*>(mapped->data()), mapped);
  };
  const auto text_of = [](const Tensor& t) {
    return std::string(static_cast<const char*>(t.raw()), static_cast<size_t>(t.nbytes()));
  };
  write_text(file, text_of(weights(1)));
  WeightStore first, second;
  packed(first, constant_of(MappedFile::open(file)));
  {
    std::FILE* f = std::fopen(file.c_str(), "r+b");
    const std::string now = text_of(weights(7));
    ASSERT_EQ(std::fwrite(now.data(), 1, now.size(), f), now.size());
    std::fclose(f);
    fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::seconds(1));
  }
  const Packed p = packed(second, constant_of(MappedFile::open(file)));
  EXPECT_TRUE(p.anew);
  EXPECT_EQ(p.form.data<float>()[0], 14);
  fs::remove(file);
}

}  // namespace
}  // namespace smelt::ops
