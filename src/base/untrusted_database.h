// SQLite files that may be anybody's.
#pragma once

#include <sqlite3.h>

namespace smelt {

/// What the file defines besides tables does not run: a view can be a query without an end.
inline void distrust(sqlite3* db) {
  for (const int what : {SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_TRUSTED_SCHEMA})
    sqlite3_db_config(db, what, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
}

}  // namespace smelt
