// Whether this is compiled with AddressSanitizer: it takes terabytes of addresses, and code without optimisation much time.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1  // as g++ says it
#endif
#endif

namespace smelt {

#ifdef __SANITIZE_ADDRESS__
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace smelt
