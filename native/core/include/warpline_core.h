/* libwarpline_core: the hot loops of reading, grouping and nesting, behind a C ABI.
 *
 * The caller allocates every buffer that receives data. No function keeps a pointer after it
 * returns, throws, prints, or exits. Functions return a wl_status, or a count where their comment
 * says so. Where a function takes `message`, a failure writes one line there, NUL-terminated and
 * cut to `message_bytes`; it may be NULL if `message_bytes` is 0.
 *
 * Threads: an open database or table may be read from several threads at once; closing it must
 * happen alone. `threads` bounds the threads a call starts; 0 means min(4, processors).
 */
#ifndef WARPLINE_CORE_H
#define WARPLINE_CORE_H

#include <stdint.h>

#if defined(__GNUC__)
#define WL_API __attribute__((visibility("default")))
#else
#define WL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows by one with every incompatible change below; the loader compares it. */
#define WL_ABI_VERSION 12

/* wl_status */
#define WL_OK 0
#define WL_IO 1          /* the operating system refused to open or read the file */
#define WL_CORRUPT 2     /* the file contradicts its format */
#define WL_UNSUPPORTED 3 /* a valid file or table that this scanner leaves to sqlite3 */
#define WL_CHANGED 4     /* another program modified the file */
#define WL_NO_MEMORY 5
#define WL_BAD_ARGUMENT 6
#define WL_TOO_MANY 7    /* a grouping has more groups, or harder ones, than it is built for */

/* The kinds of a column. A value that does not fit its kind is invalid and counted. */
#define WL_KIND_INT64 0   /* integers; reals that are whole and within +-2^53 */
#define WL_KIND_FLOAT64 1 /* reals; integers, rounded to nearest */
#define WL_KIND_TEXT 2    /* text, as its bytes */
#define WL_KIND_BLOB 3    /* blobs and text, as their bytes */
#define WL_KIND_INT64_CODES 4 /* as WL_KIND_INT64, but the number of each distinct value */
#define WL_KIND_TEXT_CODES 5  /* as WL_KIND_TEXT, likewise; not for the rowid */

/* The most distinct values of a column of codes. */
#define WL_MOST_DISTINCT 65536

/* The position that stands for the rowid: for INTEGER PRIMARY KEY columns. */
#define WL_ROWID (-1)

typedef struct wl_sqlite wl_sqlite;
typedef struct wl_sqlite_table wl_sqlite_table;
typedef struct wl_raw wl_raw;

/* Fills `out` with what compressed content expands to, and returns 0 where that has exactly as many
 * bytes. `kind` is one of ELFCOMPRESS_*: 1 for zlib, 2 for zstd. */
typedef int32_t (*wl_decompress)(int32_t kind, const void *content, int64_t bytes, void *out,
                                 int64_t out_bytes);
typedef struct wl_json wl_json;
typedef struct wl_range_sweep wl_range_sweep;

/* One column to read: what is asked, where it goes, and what was met. */
typedef struct wl_sqlite_column {
  void *values;        /* int64 or double [rows]; text and blob: int64 offsets [rows + 1];
                        * codes: int32 [rows], all 0 before, which is where code 0 is not written;
                        * without a value that of 0, or -1 for texts */
  uint8_t *valid;      /* [rows]: 1 where there is a value, 0 where it is NULL or does not fit;
                        * means nothing if `invalid` is 0 */
  int64_t invalid;     /* out: rows without a value, for whatever reason */
  int64_t mismatched;  /* out: of these, rows whose value does not fit the kind */
  int64_t short_rows;  /* out: of these, rows older than the column: its default applies */
  int32_t position;    /* index in the stored record, or WL_ROWID */
  int32_t kind;        /* WL_KIND_* */
  int32_t is_real;     /* 1 if the column has REAL affinity: its stored integers are reals */
  int64_t *distinct;   /* codes: [WL_MOST_DISTINCT + 1], gets the integers, ascending; or the offsets
                        * of the texts, in order of first appearance */
  uint8_t *distinct_bytes;     /* codes of texts: their bytes */
  int64_t distinct_bytes_room; /* how many there is room for */
  int64_t distinct_count;      /* out: -1 if there are too many: then there are no codes */
} wl_sqlite_column;

WL_API int32_t wl_abi_version(void);

/* Opens a SQLite database file and checks its header. WL_UNSUPPORTED: UTF-16 text, or a file
 * format newer than ours. A file shorter than its header says is accepted: reading a table that
 * needs the lost pages is then WL_CORRUPT. A write-ahead log beside the file is not looked at. */
WL_API int32_t wl_sqlite_open(const char *path, wl_sqlite **database, char *message,
                              int64_t message_bytes);

WL_API void wl_sqlite_close(wl_sqlite *database);

/* Finds the leaves of the table whose b-tree begins at `root_page`, and counts its rows.
 * WL_UNSUPPORTED: the page is the root of an index, as of a table WITHOUT ROWID.
 * The database must stay open until the table is closed. */
WL_API int32_t wl_sqlite_table_open(const wl_sqlite *database, uint32_t root_page, int32_t threads,
                                    wl_sqlite_table **table, int64_t *rows, char *message,
                                    int64_t message_bytes);

WL_API void wl_sqlite_table_close(wl_sqlite_table *table);

/* Returns the first row of a page that is not before `row`, or how many rows there are: where a part of
 * the table may begin or end. */
WL_API int64_t wl_sqlite_table_border(const wl_sqlite_table *table, int64_t row);

/* Decodes the rows from `first` to before `last`, which are borders, into buffers for as many, in rowid
 * order. For text and blob columns it fills the offsets; wl_sqlite_table_bytes then copies the bytes.
 * What a failure leaves means nothing. */
WL_API int32_t wl_sqlite_table_read(const wl_sqlite_table *table, int64_t first, int64_t last,
                                    wl_sqlite_column *columns, int32_t column_count,
                                    int32_t threads, char *message, int64_t message_bytes);

/* Copies the bytes of one text or blob column whose offsets wl_sqlite_table_read filled for the same
 * rows; `bytes` has room for the last offset. */
WL_API int32_t wl_sqlite_table_bytes(const wl_sqlite_table *table, int64_t first, int64_t last,
                                     const wl_sqlite_column *column, uint8_t *bytes,
                                     int64_t byte_count, int32_t threads, char *message,
                                     int64_t message_bytes);

/* Gives each key the rank of its value among the distinct values: codes[n], uniques ascending.
 * Returns how many distinct keys there are, or -WL_TOO_MANY when that passes `max_uniques` (the
 * room in `uniques`) or the keys defeat the hash table, or -WL_NO_MEMORY, -WL_BAD_ARGUMENT. */
WL_API int64_t wl_factorize_i64(const int64_t *keys, int64_t n, int32_t *codes, int64_t *uniques,
                                int64_t max_uniques);

/* Gives each text, bytes[offsets[i] .. offsets[i + 1]), the number of its value among the distinct
 * values in order of first appearance: codes[n], -1 where `valid` (may be NULL: all are) is 0.
 * first_rows[number] is the row where each appeared first. Returns how many distinct texts there
 * are, or -WL_TOO_MANY when that passes `max_uniques` (the room in `first_rows`) or the texts
 * defeat the hash table, or -WL_NO_MEMORY, -WL_BAD_ARGUMENT. */
WL_API int64_t wl_factorize_text(const uint8_t *bytes, const int64_t *offsets,
                                 const uint8_t *valid, int64_t n, int32_t *codes,
                                 int64_t *first_rows, int64_t max_uniques);

/* Sorts values inside their groups: group g is sorted_values[starts[g] .. starts[g + 1]),
 * ascending. starts has n_groups + 1 elements. WL_BAD_ARGUMENT: a code outside [0, n_groups). */
WL_API int32_t wl_group_order_i64(const int32_t *codes, const int64_t *values, int64_t n,
                                  int32_t n_groups, int64_t *starts, int64_t *sorted_values);

/* Measures what the intervals [start, end) of each group cover, time covered twice once:
 * covered[n_groups]. The rows are ascending by start. WL_UNSUPPORTED: they are not.
 * WL_BAD_ARGUMENT: a group outside [0, n_groups), or an interval that ends before it starts. */
WL_API int32_t wl_covered_i64(const int64_t *start, const int64_t *end, const int64_t *groups,
                              int64_t n, int64_t n_groups, int64_t *covered);

/* Merges the intervals [start, end) that overlap or touch, of those where chosen[n] is not 0 (NULL:
 * all), without empty ones. Rows ascend by start. Returns how many intervals there are; with buffers,
 * fills them in order of time. Or -WL_UNSUPPORTED: the rows do not ascend; -WL_BAD_ARGUMENT: an
 * interval ends before it starts. */
WL_API int64_t wl_union_i64(const int64_t *start, const int64_t *end, const uint8_t *chosen, int64_t n,
                            int64_t *union_start, int64_t *union_end);

/* Assigns each time that intervals cover to one of them: to that of the lowest level, then of the
 * earliest start, then of the lowest row. Rows ascend by start; levels are below 62. Returns how many
 * pieces there are; with buffers, fills them in order of time. Or -WL_UNSUPPORTED: the rows do not
 * ascend; -WL_BAD_ARGUMENT: a level out of range, or an interval that ends before it starts;
 * -WL_TOO_MANY: more than 2^31 - 1 rows; -WL_NO_MEMORY. */
WL_API int64_t wl_tile_i64(const int64_t *start, const int64_t *end, const int8_t *level, int64_t n,
                           int64_t *piece_start, int64_t *piece_end, int64_t *owner);

/* Times, each with the rows of other intervals that may overlap it, from first to before last, and
 * the slot that it adds to; with `slot` NULL all add to slot 0. */
typedef struct wl_spans {
  int64_t count;
  const int64_t *start;
  const int64_t *end;
  const int64_t *first;
  const int64_t *last;
  const int32_t *slot;
} wl_spans;

/* Adds up how much of the spans other intervals cover: sums[slot * codes + code], where code[n] is a
 * number of the other interval, negative to leave it out; NULL: 0. WL_BAD_ARGUMENT: a row, slot or
 * code out of range. */
WL_API int32_t wl_sum_cuts_i64(const wl_spans *spans, const int64_t *start, const int64_t *end,
                               const int32_t *code, int64_t n, int64_t slots, int64_t codes,
                               int64_t *sums);

/* Finds the innermost container of each interval [start, end) among those of its group: parent[n],
 * a row or -1, and depth[n], how many contain it. A container starts no later, ends no earlier,
 * and ends after the other's start; of two equal intervals the earlier row holds the
 * later; the innermost one starts last, then ends first. `crosses` (may be NULL) is whether some
 * intervals of a group overlap without one being inside the other. codes[n] are groups below `n_groups`;
 * NULL: one group. WL_BAD_ARGUMENT: a code out of range. WL_TOO_MANY: more than 2^31 - 1 rows. */
WL_API int32_t wl_nest_i64(const int64_t *start, const int64_t *end, const int32_t *codes,
                           int64_t n, int32_t n_groups, int64_t *parent, int32_t *depth,
                           int32_t *crosses);

/* Finds the innermost interval [start, end) around each point among those of its group: row[m], -1
 * where there is none. It starts last, then ends first; of two equal intervals it is the later row.
 * Points and intervals ascend by time and by start. WL_UNSUPPORTED: they do not. codes[n] and
 * point_codes[m] are groups below `n_groups`; both NULL: one group. WL_BAD_ARGUMENT: a code out of
 * range, or an interval that ends before it starts. WL_TOO_MANY: more than 2^31 - 1 intervals. */
WL_API int32_t wl_enclosing_i64(const int64_t *points, const int32_t *point_codes, int64_t m,
                                const int64_t *start, const int64_t *end, const int32_t *codes,
                                int64_t n, int32_t n_groups, int64_t *row);

/* Spreads the intervals of each group over lanes, so that no two in a lane overlap: lane[n], 0 for the
 * outermost, -1 for those beyond `most` lanes. An interval's lane is its nesting depth; in a group
 * where that leaves overlaps, the first lane that is free when it starts. codes[n] are groups below
 * `n_groups`. WL_BAD_ARGUMENT: a code out of range. WL_TOO_MANY: more than 2^31 - 1 rows. */
WL_API int32_t wl_lanes_i64(const int64_t *start, const int64_t *end, const int32_t *codes,
                            int64_t n, int32_t n_groups, int32_t most, int32_t *lane);

/* Operations of several devices: ascending by device, then by start; none ends before its start. */
typedef struct wl_operations {
  int64_t count;
  const int64_t *start;
  const int64_t *end;
  const int64_t *device;
} wl_operations;

/* Sets of operations. Interval i has the operations member[first[i] .. last[i]) and belongs to
 * set[i]; with `set` NULL it is set i. */
typedef struct wl_sets {
  int64_t intervals;
  const int64_t *first;
  const int64_t *last;
  const int32_t *set;
  int32_t sets;
  int64_t members;
  const int32_t *member; /* rows of the operations */
} wl_sets;

/* By set: the time during which at least one operation runs, and from the first start to the last
 * end, both added over devices; the first start and the last end of all. 0 for an empty set. */
typedef struct wl_coverage {
  int64_t *busy;
  int64_t *span;
  int64_t *first;
  int64_t *last;
} wl_coverage;

/* Measures the sets. WL_BAD_ARGUMENT: a position, row or set out of range. */
WL_API int32_t wl_coverage_i64(const wl_operations *operations, const wl_sets *sets,
                               const wl_coverage *out);

/* Sums of the squared distances d of sorted values, as wl_group_order_i64 leaves them, from the
 * centre of their group. With d = 2^32 * high + low, sums[i * n_groups + g] is, for i from 0 to 5,
 * the sum over group g of the upper and of the lower 32 bits of low * low, of high * low, and of
 * high * high. Each fits for up to 2^32 values. */
WL_API int32_t wl_group_squares_i64(const int64_t *sorted_values, const int64_t *starts,
                                    int32_t n_groups, const int64_t *centre, uint64_t *sums);

/* Ranges and calls of threads, both in order of their starts. */
typedef struct wl_launches {
  int64_t ranges;
  const int64_t *range_start;
  const int64_t *range_end;
  const int32_t *range_thread; /* -1: contains nothing */
  int64_t calls;
  const int64_t *call_start;
  const int64_t *call_end;
  const int32_t *call_thread; /* -1: not known */
  int32_t threads;
} wl_launches;

/* Rows of operations: kernels, copies, memsets. `known` (may be NULL: all are) is 0 where the
 * correlation id is null. `name` is the number of a kernel's name. */
typedef struct wl_operation_rows {
  int64_t count;
  const int64_t *start;
  const int64_t *end;
  const int64_t *correlation;
  const uint8_t *known;
  const int32_t *process;
  const int32_t *name;
} wl_operation_rows;

/* Rows of ranges, ascending by start. `group` numbers what a range is listed as. */
typedef struct wl_range_rows {
  int64_t count;
  const int64_t *start;
  const int64_t *end;
  const int64_t *id;     /* the order of ranges that are equal */
  const int32_t *thread; /* -1: contains nothing */
  const int32_t *group;
} wl_range_rows;

/* Rows of calls, ascending by start; `known` as above. */
typedef struct wl_call_rows {
  int64_t count;
  const int64_t *start;
  const int64_t *end;
  const int64_t *correlation;
  const uint8_t *known;
  const int32_t *thread; /* -1: not known */
  const int32_t *process;
} wl_call_rows;

/* What a sweep makes of the ranges that contain launches. */
#define WL_SWEEP_KERNELS 0
#define WL_SWEEP_PROJECTIONS 1

/* Groups what was launched in ranges, in one pass over blocks of rows. A range contains an operation
 * if it contains the launch call: if it is open on the call's thread when the call starts, and ends no
 * earlier than the call. The call of an operation is the one of its process with its correlation id;
 * of several, the first to start, then the last to end, then that of the lower thread.
 *
 * `rows` bounds how many rows will follow: it limits the work on keys that collide.
 *
 * First all operations, in any order. Then ranges and calls, each in order of their starts over all
 * blocks: before calls are added, all ranges that start no later than they do. WL_UNSUPPORTED: the
 * rows are not in order. WL_TOO_MANY: more than 2^31 - 1 kernels, or keys that defeat the hash table
 * or are too far apart. After a failure the sweep can only be closed. */
WL_API int32_t wl_range_sweep_open(int32_t kind, int64_t rows, int32_t threads,
                                   int32_t processes, wl_range_sweep **sweep);

WL_API void wl_range_sweep_close(wl_range_sweep *sweep);

WL_API int32_t wl_range_sweep_operations(wl_range_sweep *sweep, const wl_operation_rows *rows);

WL_API int32_t wl_range_sweep_ranges(wl_range_sweep *sweep, const wl_range_rows *rows);

WL_API int32_t wl_range_sweep_calls(wl_range_sweep *sweep, const wl_call_rows *rows);

/* Ends the sweep after the last rows, and returns how many groups there are, or -status. */
WL_API int64_t wl_range_sweep_finish(wl_range_sweep *sweep);

/* Fills one column after another, each with a value for every group.
 *
 * WL_SWEEP_KERNELS, a group for each range group and kernel name, in that order: range group, name,
 * how many ranges contain a kernel of it, how many kernels it has. A kernel is in a group once. Kernels
 * outside all ranges are in range group -1 if their thread is not known, else in -2 - thread.
 *
 * WL_SWEEP_PROJECTIONS, a group for each range group: how many ranges launch something; and of these
 * the sums of their durations, of their launch calls, of how many ranges contain them, of how many
 * ranges directly inside them launch something, and of their operations. WL_UNSUPPORTED from the sweep:
 * ranges of a thread overlap without one being inside the other, or a sum is too large. */
WL_API int32_t wl_range_sweep_groups(const wl_range_sweep *sweep, int64_t *columns);

/* Copies the values of the groups from `first` to before `last`, ascending within each: the durations
 * of kernels; or from the first start to the last end of what each range launched. */
WL_API int32_t wl_range_sweep_values(const wl_range_sweep *sweep, int64_t first, int64_t last,
                                     int64_t *values);

/* What each call launched: the first start, the last end, and how many operations (0: none). */
typedef struct wl_call_work {
  const int64_t *first;
  const int64_t *last;
  const int32_t *operations;
} wl_call_work;

/* The same for each range, and the number of its calls that launched something. */
typedef struct wl_range_work {
  int64_t *first; /* INT64_MAX without operations */
  int64_t *last;  /* INT64_MIN without operations */
  int64_t *operations;
  int32_t *launches;
} wl_range_work;

/* Adds up the work of the calls that each range contains, as in wl_range_sweep_open. */
WL_API int32_t wl_range_work_i64(const wl_launches *launches, const wl_call_work *work,
                                 const wl_range_work *out);

/* When the nodes of a graph happen: time[n] is the latest of earliest[node] and, over the node's
 * edges [first[node], first[node + 1]), of time[source] + weight, with length[source] added where
 * from_end. INT64_MIN is "never": as a weight it cuts an edge, as a time it says that nothing
 * brings the node about. An edge that closes a circle is left out, seen from the lowest node.
 * Weights and lengths are small enough for their sums. */
WL_API int32_t wl_replay_times(int64_t n, const int64_t *first, const int32_t *source,
                               const uint8_t *from_end, const int64_t *weight,
                               const int64_t *length, const int64_t *earliest, int64_t *time);

/* Returns the CRC-32, as ZIP has it, of what `crc` is the checksum of (0: of nothing) followed by
 * bytes[count], or -WL_BAD_ARGUMENT, -WL_NO_MEMORY. */
WL_API int64_t wl_crc32(const uint8_t *bytes, int64_t count, uint32_t crc, int32_t threads);

/* Writes each value in decimal, with a line feed after it, into `text`, which has room for
 * 21 * n bytes. Returns how many bytes were written, or -WL_BAD_ARGUMENT. */
WL_API int64_t wl_format_i64(const int64_t *values, int64_t n, uint8_t *text);

/* What the cells of a column are made of. */
#define WL_CELLS_INT64 0 /* values: int64 */
#define WL_CELLS_INT32 1 /* values: int32 */
#define WL_CELLS_TEXTS 2 /* values: int32, the number of a text; negative: an empty cell */
#define WL_CELLS_LINES 3 /* no values: row i has text i */

/* The cells of one column; text i is bytes[offsets[i] .. offsets[i + 1]). */
typedef struct wl_cells {
  const void *values;
  const uint8_t *valid; /* 0: an empty cell. NULL: none is */
  const uint8_t *bytes;
  const int64_t *offsets;
  int64_t texts; /* how many texts there are */
  int32_t kind;  /* WL_CELLS_* */
} wl_cells;

/* Writes `count` rows: their cells with the separator between them, and a line feed. Returns how
 * many bytes were written; without a text, or if they might not fit in `room`, nothing is written,
 * and it returns how much room is enough. Or -WL_BAD_ARGUMENT, -WL_NO_MEMORY. */
WL_API int64_t wl_format_rows(const wl_cells *columns, int32_t n_columns, int64_t count,
                              uint8_t separator, uint8_t *text, int64_t room);

/* The texts ":1:2:3" of some rows: the ids from a row's outermost ancestor to its own. Without a
 * text, fills offsets[n + 1]; with one, writes the bytes. Returns how many bytes there are, or
 * -WL_BAD_ARGUMENT. Following the parents of a row must come to one without a parent. */
WL_API int64_t wl_id_paths(const int64_t *ids, const int64_t *parent, const uint8_t *has_parent,
                           const int64_t *rows, int64_t n, int64_t *offsets, uint8_t *text);

/* A raw session: the logs that recorded programs wrote (native/raw/warpline_raw.h), made into
 * columns. Open, add every log, decode until nothing is left, seal, then copy columns out. What
 * is damaged in a log is counted, not an error. One thread at a time. `decompress` is called when the
 * session is sealed, for compressed sections of the files that code came from; NULL: these are not
 * read. */
WL_API int32_t wl_raw_open(wl_raw **session, wl_decompress decompress, char *message,
                           int64_t message_bytes);

WL_API void wl_raw_close(wl_raw *session);

/* Adds a log, which is opened when its turn comes. Processes and threads are numbered in the
 * order of their logs. `incarnation`: of the process that it is about, whatever its header says.
 * `is_alive`: its process still runs, so that what it has open goes on. */
WL_API int32_t wl_raw_add_log(wl_raw *session, const char *path, uint64_t incarnation,
                              int32_t is_alive, char *message, int64_t message_bytes);

/* Decodes about `budget_bytes`. Returns how many were gone through (at least 1), 0 when there is
 * nothing left, or a negated wl_status. */
WL_API int64_t wl_raw_decode(wl_raw *session, int64_t budget_bytes, char *message,
                             int64_t message_bytes);

/* Says until when a process is known to have lived, monotonic ns: what it has open ends there, but
 * not before its last record. Processes are numbered as wl_raw_rows counts them once all logs are
 * decoded. Without it what a process has open ends with its last record. */
WL_API int32_t wl_raw_end_process(wl_raw *session, int64_t process, int64_t ended_ns, char *message,
                                  int64_t message_bytes);

/* Decodes what is left, joins, names and sorts. Times of the tables are counted from `origin_ns`;
 * recording stopped at `end_ns`, INT64_MIN if that is not known. */
WL_API int32_t wl_raw_seal(wl_raw *session, int64_t origin_ns, int64_t end_ns, char *message,
                           int64_t message_bytes);

/* Returns the rows of a table: of the schema (range, mark, range_payload, process, thread), of
 * "string" (the offsets: one more than there are texts), or of facts about the session (log,
 * note, open, session). Negated wl_status: there is none of that name. */
WL_API int64_t wl_raw_rows(const wl_raw *session, const char *table);

/* Copies `count` values of a column "TABLE/COLUMN" from row `first` on, in the type that the
 * schema gives it (facts: int64), and which of them are there (1) or null (0). Either buffer may
 * be NULL. "string/blob" is counted in bytes. Returns how many are null, or a negated wl_status. */
WL_API int64_t wl_raw_column(const wl_raw *session, const char *column, int64_t first,
                             int64_t count, void *values, uint8_t *valid);

/* Removes from the logs of a session that goes on what was complete before `from_ns`, monotonic ns,
 * and gives back its space; what later records refer to stays. Records with times after `until_ns` are
 * not believed. `is_last`: the session is over, or a copy; nothing that is older than the one or later than
 * the other stays then. Logs that cannot be read or written stay as they are. Returns the bytes given back,
 * or a negated wl_status. */
WL_API int64_t wl_raw_trim(const char *const *paths, int64_t count, int64_t from_ns, int64_t until_ns,
                           int32_t is_last, char *message, int64_t message_bytes);

/* Follows a session that goes on: each record of its logs is read once, and the session is only read. It measures
 * how busy GPUs were, and makes copies of the last seconds of the logs, of `tails` lengths of time. Open, add the
 * logs, which are numbered from 0; then read again and again. One thread at a time. */
typedef struct wl_follower wl_follower;
WL_API int32_t wl_follow_open(wl_follower **follower, int32_t tails, char *message, int64_t message_bytes);
WL_API void wl_follow_close(wl_follower *follower);

/* Adds a log of a process, which has any number from 0 on; or forgets one, of which nothing is wanted any more. */
WL_API int32_t wl_follow_add_log(wl_follower *follower, const char *path, int32_t process, char *message,
                                 int64_t message_bytes);
WL_API int32_t wl_follow_close_log(wl_follower *follower, int64_t log, char *message, int64_t message_bytes);

/* Reads what is new at `now_ns`, monotonic ns: later times are not believed. Work that ended before `work_from_ns`
 * is forgotten for good; what was complete before from_ns[n] is old for tail n. Fills facts[5]: when the first
 * launch began whose work has no record, or 0; events that were dropped; logs that cannot be read to their end;
 * how often others had removed records that were not read; GPUs so far, as processes number them. */
WL_API int32_t wl_follow_read(wl_follower *follower, int64_t now_ns, int64_t work_from_ns, const int64_t *from_ns,
                              int64_t *facts, char *message, int64_t message_bytes);

/* Fills the process and CUDA's number of each GPU so far. */
WL_API int32_t wl_follow_devices(const wl_follower *follower, int32_t *process, int64_t *number, char *message,
                                 int64_t message_bytes);

/* Measures the time in [from_ns, until_ns), monotonic ns: for each of `row_count` rows how long at least one
 * operation ran, and how many operations overlap it. `rows` has the row of each GPU, several may have the same. */
WL_API int32_t wl_follow_measure(const wl_follower *follower, int64_t from_ns, int64_t until_ns,
                                 const int32_t *rows, int64_t row_count, int64_t *busy_ns, int64_t *operations,
                                 char *message, int64_t message_bytes);

/* Writes to `file`, a descriptor of an empty file or an older copy, what was read of a log and is not old for a
 * tail, and what that refers to. Returns where the copy ends, 0 if nothing was ever read: the file stays as it is
 * then; or a negated wl_status. Fills facts[2]: how often others had removed records of the log that were not read; where
 * the log ends. */
WL_API int64_t wl_follow_copy(wl_follower *follower, int32_t tail, int64_t log, int32_t file, int64_t *facts,
                              char *message, int64_t message_bytes);

/* Returns the number of a text, which is added if it is new, or a negated wl_status. */
WL_API int64_t wl_raw_intern(wl_raw *session, const char *text, int64_t bytes);

/* A scan of the JSON of a Chrome trace, as the PyTorch profiler writes it: open, feed its text in
 * pieces of any size, finish, then look at columns. They belong to the scan: a pointer to one is
 * good until wl_json_close. Text that is damaged, or no JSON, is told by the facts, not by an
 * error. One thread at a time.
 *
 * The facts, in this order: bytes fed; why it stopped (0 it did not, 1 cut: the text ended before
 * its brackets did, 2 no JSON, 3 `memory_bytes` reached, 4 neither an object nor an array); the
 * byte where it stopped or -1; the byte where something follows the end or -1; and how many of:
 * elements that are no events, unusable times, unusable durations, texts cut at 1 MiB, longer
 * arrays and objects left out, such nested deeper than 512 left out, events longer than 64 MiB
 * left out, values of too many arguments left out, places that are no JSON but have events behind
 * them; then the first of these places or -1; then how many members of the file were left out;
 * and how many arguments wl_json_argument gives. */

/* `names` are the arguments to keep, each followed by a NUL; `all_names` keeps all. Several threads
 * scan blocks of `block_bytes`, 0: as many as are quick; unless all arguments are kept. What is
 * found does not depend on them. */
WL_API int32_t wl_json_open(const char *names, int64_t name_bytes, int32_t all_names,
                            int64_t memory_bytes, int64_t block_bytes, wl_json **scan, char *message,
                            int64_t message_bytes);

WL_API void wl_json_close(wl_json *scan);

/* Reads on. `wants_more` becomes 0 when more text changes nothing. */
WL_API int32_t wl_json_feed(wl_json *scan, const void *bytes, int64_t count, int32_t *wants_more,
                            char *message, int64_t message_bytes);

/* Ends the text. Nothing can be fed afterwards. */
WL_API int32_t wl_json_finish(wl_json *scan, char *message, int64_t message_bytes);

/* Gives the values of a column and returns their count, or -WL_BAD_ARGUMENT. One value per event:
 * phase, has_ts, has_dur (uint8), name, category, pid, tid, id (text numbers or -1), dur_ns (signed,
 * of as few bytes as all of them fit into: `value_bytes`), ts_ns (int64). The bytes of all texts,
 * and where each begins (int64, one more than there are): text, text_offset; likewise member,
 * member_offset, where names and values alternate. And: fact (int64). */
WL_API int64_t wl_json_column(const wl_json *scan, const char *column, const void **values,
                              int32_t *value_bytes);

/* Gives an argument: the text number of its name, the events that have it, ascending, and what
 * each value is: 0 null, 1 bool, 2 integer, 3 another number (the bits of a double), 4 text,
 * 5 array or object as it is written, 6 integer beyond int64 (4 to 6: text numbers). The values are
 * signed and have `value_bytes` each. Returns how many there are, or -WL_BAD_ARGUMENT. */
WL_API int64_t wl_json_argument(const wl_json *scan, int64_t argument, int32_t *name,
                                const int32_t **events, const uint8_t **kinds,
                                const void **values, int32_t *value_bytes);

#ifdef __cplusplus
}
#endif

#endif /* WARPLINE_CORE_H */
