// A profiling tool that writes down the ranges that smelt names.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/cuda/nvtx.h"

namespace smelt::test {

namespace abi = device::cuda::abi;

inline std::vector<std::string> heard;  // "domain smelt", "push conv_2", "pop"
inline bool deaf = false;               // a tool stays for the rest of the process
inline nvtxDomainRegistration_st* const some_domain = reinterpret_cast<nvtxDomainRegistration_st*>(0x5e11);

inline void fill(abi::NvtxTables tables, abi::NvtxCore2 which, abi::NvtxFunction function) {
  const auto* callbacks = static_cast<const abi::NvtxCallbacks*>(tables(abi::nvtx_table_callbacks));
  ASSERT_EQ(callbacks->bytes, sizeof(abi::NvtxCallbacks));
  abi::NvtxFunction** functions = nullptr;
  unsigned count = 0;
  ASSERT_EQ(callbacks->table(abi::nvtx_module_core2, &functions, &count), 1);
  ASSERT_LT(which, count);
  *functions[which] = function;
}

/// For listen_to_ranges.
inline int listening(abi::NvtxTables tables) {
  const abi::NvtxDomainCreate create = [](const char* name) {
    heard.push_back(std::string("domain ") + name);
    return some_domain;
  };
  const abi::NvtxRangePush push = [](abi::NvtxDomain domain, const abi::NvtxAttributes* a) {
    EXPECT_EQ(domain, some_domain);
    EXPECT_EQ(a->version, 3);
    EXPECT_EQ(a->bytes, sizeof(abi::NvtxAttributes));
    if (!deaf) heard.push_back(std::string("push ") + a->message);
    return 0;
  };
  const abi::NvtxRangePop pop = [](abi::NvtxDomain domain) {
    EXPECT_EQ(domain, some_domain);
    if (!deaf) heard.emplace_back("pop");
    return 0;
  };
  fill(tables, abi::nvtx_domain_create, reinterpret_cast<abi::NvtxFunction>(create));
  fill(tables, abi::nvtx_range_push, reinterpret_cast<abi::NvtxFunction>(push));
  fill(tables, abi::nvtx_range_pop, reinterpret_cast<abi::NvtxFunction>(pop));
  return 1;
}

}  // namespace smelt::test
