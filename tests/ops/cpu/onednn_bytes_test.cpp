#include "ops/cpu/onednn/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace smelt::ops::onednn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Why it is refused; nothing where it is taken.
std::string text(const std::optional<Refusal>& why) { return why ? why->text : ""; }

std::string reason(std::string_view implementation, bool is_signed, const WeightRange& r) {
  return text(rejects_sums(implementation, is_signed, r));
}

TEST(OnednnBytes, implementations_say_by_name_whether_they_have_dot_products) {
  for (const char* name : {"brgconv:avx512_core_vnni", "brgconv_1x1:avx2_vnni", "brg:avx512_core_amx", "jit_uni_int8:avx2_vnni",
                           "brg:avx512_core_fp16", "brg:avx512_core_bf16"}) {
    EXPECT_TRUE(has_dot_products(name)) << name;
  }
  for (const char* name : {"brgconv:avx512_core", "brgconv_1x1:avx512_core", "brg:avx512_core", "jit_int8:avx2"}) {
    EXPECT_FALSE(has_dot_products(name)) << name;
  }
}

TEST(OnednnBytes, weights_of_eight_bits_want_dot_products_in_the_implementation_whatever_the_cpu) {
  const WeightRange wide{-128, 127, 1000}, narrow{-64, 64, 1000};
  EXPECT_EQ(reason("brgconv:avx512_core_vnni", false, wide), "");
  EXPECT_EQ(reason("brgconv:avx512_core_amx", true, wide), "");
  EXPECT_EQ(reason("brgconv:avx512_core", false, narrow), "");
  EXPECT_THAT(reason("brgconv:avx512_core", false, wide),
              AllOf(HasSubstr("brgconv:avx512_core has no 8-bit dot products"), HasSubstr("saturates at 32767"),
                    HasSubstr("weights reach 128"), HasSubstr("at most 64 is safe")));
  EXPECT_THAT(reason("brg:avx512_core", false, {0, 65, 1000}), HasSubstr("weights reach 65"));
}

TEST(OnednnBytes, signed_rows_want_amx_even_with_small_weights) {
  for (const char* name :
       {"brgconv_1x1:avx512_core", "brgconv_1x1:avx512_core_vnni", "jit_uni_int8:avx2_vnni", "x64:gemm_s8s8s32:jit"})
    EXPECT_THAT(reason(name, true, {-3, 3, 1000}), HasSubstr("shifts signed bytes")) << name;
  EXPECT_EQ(reason("brgconv_1x1:avx512_core_amx", true, {-3, 3, 1000}), "");
}

TEST(OnednnBytes, sums_beyond_24_bits_want_a_kernel_that_keeps_them_whole) {
  const WeightRange deep{-128, 127, (int64_t{1} << 24) / 255 + 1};
  EXPECT_EQ(reason("brgconv:avx512_core_vnni", false, deep), "");
  EXPECT_THAT(reason("jit_int8:avx512_core_vnni", false, deep), HasSubstr("at most 16777216 are exact"));
  EXPECT_THAT(reason("jit:avx512_core_amx", true, deep), HasSubstr("through f32"));
}

TEST(OnednnBytes, weights_beyond_8_bits_are_none) {
  EXPECT_FALSE(rejects_weights({-128, 127, 1000}));
  EXPECT_THAT(text(rejects_weights({-129, 0, 1000})), HasSubstr("beyond 8 bits"));
  EXPECT_THAT(text(rejects_weights({0, 128, 1000})), HasSubstr("beyond 8 bits"));
}

}  // namespace
}  // namespace smelt::ops::onednn
