// Ranges for profilers, heard by a tool of the test's own.
#include "device/cuda/nvtx.h"

#include <gmock/gmock.h>

#include <vector>

namespace smelt::device::cuda {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> heard;
nvtxDomainRegistration_st* const some_domain = reinterpret_cast<nvtxDomainRegistration_st*>(0x5e11);

void fill(abi::NvtxTables tables, abi::NvtxCore2 which, abi::NvtxFunction function) {
  const auto* callbacks = static_cast<const abi::NvtxCallbacks*>(tables(abi::nvtx_table_callbacks));
  ASSERT_EQ(callbacks->bytes, sizeof(abi::NvtxCallbacks));
  abi::NvtxFunction** functions = nullptr;
  unsigned count = 0;
  ASSERT_EQ(callbacks->table(abi::nvtx_module_core2, &functions, &count), 1);
  ASSERT_LT(which, count);
  *functions[which] = function;
}

int listening(abi::NvtxTables tables) {
  const abi::NvtxDomainCreate create = [](const char* name) {
    heard.push_back(std::string("domain ") + name);
    return some_domain;
  };
  const abi::NvtxRangePush push = [](abi::NvtxDomain domain, const abi::NvtxAttributes* a) {
    EXPECT_EQ(domain, some_domain);
    EXPECT_EQ(a->version, 3);
    EXPECT_EQ(a->bytes, sizeof(abi::NvtxAttributes));
    heard.push_back(std::string("push ") + a->message);
    return 0;
  };
  const abi::NvtxRangePop pop = [](abi::NvtxDomain domain) {
    EXPECT_EQ(domain, some_domain);
    heard.push_back("pop");
    return 0;
  };
  fill(tables, abi::nvtx_domain_create, reinterpret_cast<abi::NvtxFunction>(create));
  fill(tables, abi::nvtx_range_push, reinterpret_cast<abi::NvtxFunction>(push));
  fill(tables, abi::nvtx_range_pop, reinterpret_cast<abi::NvtxFunction>(pop));
  return 1;
}

TEST(NamedRange, is_heard_by_a_tool_from_when_it_listens) {
  { const NamedRange unheard("conv_0"); }
  EXPECT_FALSE(listen_to_ranges([](abi::NvtxTables) { return 0; }));
  EXPECT_FALSE(listen_to_ranges([](abi::NvtxTables) { return 1; }));   // wants to, and gives no functions
  {
    const NamedRange begun_before("conv_1");
    EXPECT_TRUE(listen_to_ranges(listening));
    const NamedRange outer("layer");
    const NamedRange inner("conv_2");
  }
  { const NamedRange last("conv_3"); }
  EXPECT_THAT(heard, ElementsAre("domain smelt", "push layer", "push conv_2", "pop", "pop", "push conv_3", "pop"));
}

TEST(NamedRange, gives_tools_every_module_of_nvtx) {
  EXPECT_TRUE(listen_to_ranges([](abi::NvtxTables tables) {
    const auto* callbacks = static_cast<const abi::NvtxCallbacks*>(tables(abi::nvtx_table_callbacks));
    for (int m = 0; m < 9; ++m) {
      abi::NvtxFunction** functions = nullptr;
      unsigned count = 0;
      EXPECT_EQ(callbacks->table(static_cast<abi::NvtxModule>(m), &functions, &count), m >= 1 && m <= 6) << m;
      if (!functions) continue;
      EXPECT_EQ(functions[0], nullptr);
      for (unsigned i = 1; i < count; ++i) EXPECT_NE(functions[i], nullptr) << m << ' ' << i;
      EXPECT_EQ(functions[count], nullptr);
    }
    EXPECT_EQ(static_cast<const abi::NvtxVersion*>(tables(abi::nvtx_table_version))->version, 3u);
    return listening(tables);
  }));
}

}  // namespace
}  // namespace smelt::device::cuda
