#include "base/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "base/error.h"

namespace smelt {

std::string gunzip(std::string_view packed, size_t most) {
  z_stream z{};
  constexpr int of_gzip = 16;  // zlib's: a gzip header, no zlib one
  if (inflateInit2(&z, of_gzip + MAX_WBITS) != Z_OK) fail("zlib could not start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ended(&z, &inflateEnd);
  std::string text;
  for (size_t read = 0, wrote = 0;;) {
    const size_t in = std::min<size_t>(packed.size() - read, std::numeric_limits<uInt>::max());
    // zlib does not write there; its interface has no const view.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())) + read;
    z.avail_in = static_cast<uInt>(in);
    if (text.size() - wrote < (1 << 16)) text.resize(std::min(most + 1, std::max<size_t>(1 << 20, 2 * text.size())));
    const size_t room = std::min<size_t>(text.size() - wrote, std::numeric_limits<uInt>::max());
    z.next_out = reinterpret_cast<Bytef*>(text.data()) + wrote;
    z.avail_out = static_cast<uInt>(room);
    const int result = inflate(&z, Z_NO_FLUSH);
    read += in - z.avail_in, wrote += room - z.avail_out;
    if (wrote > most) fail("it unpacks to more than {} bytes", most);
    if (result == Z_STREAM_END) {
      if (read == packed.size()) return text.resize(wrote), text;
      if (inflateReset(&z) != Z_OK) fail("zlib could not go on");
    } else if (result != Z_OK || read == packed.size()) {
      if (result == Z_OK && z.avail_out == 0) continue;  // all was read, and some is still to be written
      fail("damaged: packed by gzip, and wrong or cut off at byte {} of {}", read, packed.size());
    }
  }
}

}  // namespace smelt
