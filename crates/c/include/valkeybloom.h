// Sketches of valkeybloom in your own program: Bloom filters, cuckoo filters, count-min sketches, top-k lists and
// t-digests, without a server. docs/c.md shows how to begin.
//
// Generated from crates/c by cbindgen. Do not edit it.
//
// Rules for all functions:
//
// - They return a status: VALKEYBLOOM_STATUS_OK or the reason for the failure. valkeybloom_last_error() returns its
//   text. A call that fails leaves the places for its results unchanged, but may have written to an array of answers.
// - Objects of all families are a valkeybloom_object, which is opaque. A function that makes an object puts the pointer
//   into its last argument. The object is yours until you pass it to valkeybloom_free. Whatever you pass in stays yours,
//   and is not used after the call. A function whose name has a family takes objects of that family alone; others return
//   VALKEYBLOOM_STATUS_BAD_FAMILY.
// - Bytes are returned in a valkeybloom_buffer or in valkeybloom_items. They are yours: free them with the function of
//   that type.
// - An item is any bytes: a pointer and a length. The pointer may be null if the length is 0. If your items are text,
//   pass UTF-8, and if they are numbers, pass their decimal digits: then all languages and servers mean the same item.
// - Options are words of the server's command, separated by blanks, such as `EXPANSION 4`; or null.
// - An object may be used by several threads at once. A batch is one call: other threads see all of it or nothing. But
//   an object must not be freed while another thread uses it, and a loader is for one thread at a time.
// - A description begins with its size. Set that to the size of the structure, so that later versions may add fields.
// - Pointers must be null, or valid for what they point to. Null is refused, unless a function says what it means. A
//   place for a bool or a number may be null if you don't need the result.


#ifndef VALKEYBLOOM_H
#define VALKEYBLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Arrow's C data interface, https://arrow.apache.org/docs/format/CDataInterface.html
struct ArrowSchema;
struct ArrowArray;

// The outcome of a call. The numbers stay; later versions may add others.
typedef enum {
  // The call succeeded.
  VALKEYBLOOM_STATUS_OK = 0,
  // A server would refuse the parameter, item or union, with the same text.
  VALKEYBLOOM_STATUS_REFUSED = 1,
  // The bytes are not those of an object, or chunks are missing.
  VALKEYBLOOM_STATUS_UNDECODABLE = 2,
  // There is not enough memory. Nothing has changed, unless a batch was under way.
  VALKEYBLOOM_STATUS_NO_MEMORY = 3,
  // The items of a batch can't be read: one is null, or the offsets don't ascend within the data.
  VALKEYBLOOM_STATUS_BAD_BATCH = 4,
  // The elements of an Arrow array have a type that items can't have.
  VALKEYBLOOM_STATUS_BAD_TYPE = 5,
  // A bug of this library, in this call or in an earlier one on this object. Free the object.
  VALKEYBLOOM_STATUS_BROKEN = 6,
  // A pointer that the call needs is null or not aligned.
  VALKEYBLOOM_STATUS_BAD_POINTER = 7,
  // The object is of a family that does not have this call.
  VALKEYBLOOM_STATUS_BAD_FAMILY = 8
} valkeybloom_status;

// The families of objects.
typedef enum {
  // Bloom filters: plain, with a window, with counts, or scaled to a number of items. "Not found" is certain; "found"
  // is wrong at the error rate.
  VALKEYBLOOM_FAMILY_BLOOM = 1,
  // Cuckoo filters: "not found" is certain, "found" is probable, and items can be removed.
  VALKEYBLOOM_FAMILY_CUCKOO = 2,
  // Count-min sketches: estimate how often items were counted. An estimate may be too high, but never too low.
  VALKEYBLOOM_FAMILY_COUNT_MIN = 3,
  // Top-k lists: the most frequent items, with estimates of their counts.
  VALKEYBLOOM_FAMILY_TOP_K = 4,
  // T-digests: estimate quantiles of observations. They are most exact at both ends.
  VALKEYBLOOM_FAMILY_T_DIGEST = 5
} valkeybloom_family;

// A Bloom filter or cuckoo filter that is being loaded from chunks. For one thread at a time.
typedef struct valkeybloom_loader valkeybloom_loader;

// A sketch of one of the families.
typedef struct valkeybloom_object valkeybloom_object;

// Returned bytes. They are yours: free them with valkeybloom_buffer_free.
typedef struct {
  // The first byte. Null if there is no value: an empty one has a pointer, and the length 0.
  uint8_t *data;
  // The number of bytes.
  size_t length;
} valkeybloom_buffer;

// Returned items, end to end. They are yours: free them with valkeybloom_items_free.
typedef struct {
  // The number of items.
  size_t length;
  // The bytes of the items.
  uint8_t *data;
  // The number of bytes in `data`.
  size_t data_length;
  // `length + 1` offsets: item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]`.
  int64_t *offsets;
  // The count of each item; null if the call returns none.
  uint64_t *counts;
} valkeybloom_items;

// Many items in your memory: between offsets, or as an Arrow array. Set the fields you use; leave the others null or
// 0. Strings and bytes are read in place. Integers, bytes of a fixed width, and the values of dictionaries and runs are
// copied.
//
// Item `i` is the bytes from `offsets[i]` up to `offsets[i + 1]` in the data.
typedef struct {
  // The number of items between offsets.
  size_t length;
  // The bytes of the items.
  const uint8_t *data;
  // The number of bytes in `data`.
  size_t data_length;
  // `length + 1` offsets of 32 bits.
  const int32_t *offsets32;
  // `length + 1` offsets of 64 bits, instead of those of 32 bits.
  const int64_t *offsets64;
  // The type of `array`: strings, bytes or integers. It stays yours: it is not released.
  const struct ArrowSchema *schema;
  // An Arrow array, instead of data and offsets. It stays yours: it is not released.
  const struct ArrowArray *array;
} valkeybloom_batch;

// Parameters and contents of a filter. `items` were new, of the `capacity` that it has before it grows or is full; in a
// window, that of all periods. `filters` is the number of stacked filters or tables. The next filter of the stack is
// `expansion` times as large, and the next table eight times as large as that; 0 is for a filter that does not grow.
// `window_ms` is the length of a period; it and `periods` are 0 without a window. Filters made by RedisBloom have no seed,
// but zeros.
typedef struct {
  size_t size;
  uint64_t items;
  uint64_t capacity;
  uint64_t filters;
  uint64_t memory_bytes;
  double error_rate;
  uint64_t expansion;
  uint64_t window_ms;
  uint64_t periods;
  bool is_counting;
  bool has_seed;
  uint8_t seed[32];
} valkeybloom_bloom_info;

// Parameters and contents of a filter, which is a stack of `filters`. Each of its `slots` has room for one item, and a bucket
// consists of `bucket_size` slots. At most `max_iterations` items are moved to make room for a new one. The next filter of
// the stack is `expansion` times as large; 0 is for a filter that does not grow.
typedef struct {
  size_t size;
  uint64_t items;
  uint64_t slots;
  uint64_t filters;
  uint64_t memory_bytes;
  uint64_t bucket_size;
  uint64_t max_iterations;
  uint64_t expansion;
} valkeybloom_cuckoo_info;

// Parameters and contents of a sketch: `depth` rows of `width` counters of `cell_size` bytes. `total` is the sum of all
// counts.
typedef struct {
  size_t size;
  uint64_t width;
  uint64_t depth;
  uint64_t cell_size;
  uint64_t total;
  uint64_t memory_bytes;
} valkeybloom_count_min_info;

// Parameters and contents of a list.
typedef struct {
  // The size of this structure, which the caller sets.
  size_t size;
  // The most items in the list.
  uint64_t k;
  // The number of cells in a row.
  uint64_t width;
  // The number of rows.
  uint64_t depth;
  // The probability that a count of 1 is lost to another item.
  double decay;
  // The number of items in the list.
  uint64_t items;
  // The memory that the list takes, in bytes.
  uint64_t memory_bytes;
} valkeybloom_top_k_info;

// Parameters and contents of a digest.
typedef struct {
  // The size of this structure, which the caller sets.
  size_t size;
  // The compression that the digest was made with.
  uint64_t compression;
  // The number of observations.
  uint64_t observations;
  // The smallest observation; NaN if there is none.
  double min;
  // The largest observation; NaN if there is none.
  double max;
  // The memory that the digest takes, in bytes.
  uint64_t memory_bytes;
} valkeybloom_tdigest_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the error text of this thread's last failed call, in one line; the empty text if none has failed. It is
// valid until the next call of this thread fails.
const char *valkeybloom_last_error(void);

// Returns the version of the library, such as "3.0.0". It is valid forever.
const char *valkeybloom_version(void);

// Sets the limits for all objects of the process: the most bytes of a filter that is stacked on others because they
// are full, 1 GiB at first; and the most filters that a cuckoo filter grows to, 32 at first, as on a server. Loaded
// bytes decide how fast an object grows; these limits bound what a single addition can allocate. What you create or
// load may be larger.
void valkeybloom_limit_growth(uint64_t filter_bytes, uint64_t cuckoo_filters);

// Frees the bytes of a buffer, and sets its fields to null and 0. Does nothing if the pointer is null, or `data` is.
void valkeybloom_buffer_free(valkeybloom_buffer *buffer);

// Frees items, and sets their fields to null and 0. Null is ignored, as the pointer and in a field.
void valkeybloom_items_free(valkeybloom_items *items);

// Frees an object. Null is ignored.
void valkeybloom_free(valkeybloom_object *object);

// Returns the family of an object.
valkeybloom_status valkeybloom_family_of(const valkeybloom_object *object, valkeybloom_family *family);

// Looks an item up in a Bloom filter, cuckoo filter or top-k list. `found` receives whether the object claims it. The
// only option is AT ms, the time in milliseconds since the epoch, for Bloom filters with a window.
valkeybloom_status valkeybloom_contains(const valkeybloom_object *object,
                                        const uint8_t *item,
                                        size_t item_length,
                                        const char *options,
                                        bool *found);

// Looks up the items of a batch as valkeybloom_contains does. `answers` receives a byte for each: 1 if the object claims
// it, else 0.
valkeybloom_status valkeybloom_contains_many(const valkeybloom_object *object,
                                             const valkeybloom_batch *batch,
                                             const char *options,
                                             uint8_t *answers);

// Counts an item. `count` receives how often the item was added and not removed:
//
// - Bloom filters that count, and count-min sketches, return an upper bound.
// - Cuckoo filters return the number of copies of the item's fingerprint, an upper bound too.
// - Top-k lists return an estimate, which may be too low.
valkeybloom_status valkeybloom_count(const valkeybloom_object *object,
                                     const uint8_t *item,
                                     size_t item_length,
                                     uint64_t *count);

// Removes an item once from a cuckoo filter, or a Bloom filter that counts. `removed` receives whether the filter claimed
// it. Removing an item that was never added may remove another one. A Bloom filter that has grown beyond its capacity
// refuses a removal now and then: the item stays, and `removed` is false.
valkeybloom_status valkeybloom_remove(valkeybloom_object *object,
                                      const uint8_t *item,
                                      size_t item_length,
                                      bool *removed);

// Removes everything that was added. The parameters stay, and the seed of a Bloom filter.
valkeybloom_status valkeybloom_clear(valkeybloom_object *object);

// Makes a copy of an object.
valkeybloom_status valkeybloom_copy(const valkeybloom_object *object, valkeybloom_object **copy);

// Compares two objects. `equal` receives whether they are of one family, and their bytes are equal.
valkeybloom_status valkeybloom_equal(const valkeybloom_object *object, const valkeybloom_object *other, bool *equal);

// Encodes an object: a Bloom filter as a payload of BF.LOAD, unless RedisBloom made it; all others as a payload of
// RESTORE.
valkeybloom_status valkeybloom_to_bytes(const valkeybloom_object *object, valkeybloom_buffer *bytes);

// Decodes an object of any family, from valkeybloom_to_bytes, from DUMP, or from a BF.LOAD in an append-only file.
valkeybloom_status valkeybloom_from_bytes(const uint8_t *data, size_t length, valkeybloom_object **object);

// Returns the next chunk of a Bloom filter or cuckoo filter, as SCANDUMP does. `cursor` is 0 at first. Each call sets it
// to the chunk's cursor; after the last chunk to 0, with a null buffer. The filter must not change between calls: if
// other threads may change it, iterate over a copy from valkeybloom_copy.
valkeybloom_status valkeybloom_next_chunk(const valkeybloom_object *object,
                                          uint64_t *cursor,
                                          valkeybloom_buffer *chunk);

// Makes a loader for the chunks of a filter: VALKEYBLOOM_FAMILY_BLOOM or VALKEYBLOOM_FAMILY_CUCKOO.
valkeybloom_status valkeybloom_loader_new(int family, valkeybloom_loader **loader);

// Frees a loader. Null is ignored.
void valkeybloom_loader_free(valkeybloom_loader *loader);

// Loads a chunk with its cursor, in the order of SCANDUMP. Cursor 0, the end, has no effect.
valkeybloom_status valkeybloom_loader_load(valkeybloom_loader *loader,
                                           uint64_t cursor,
                                           const uint8_t *chunk,
                                           size_t chunk_length);

// Makes a filter from the loaded chunks. Afterwards the loader is empty, even if chunks were missing. If `filter` is null,
// or memory is out, it may still have its chunks.
valkeybloom_status valkeybloom_loader_finish(valkeybloom_loader *loader,
                                             valkeybloom_object **filter);

// Makes a filter for `capacity` items with an error rate between 0 and 1. Beyond its capacity it grows.
//
// Options are those of BF.RESERVE: EXPANSION n, NONSCALING, WINDOW ms PERIODS n, COUNTING, SCALETO n. `seed` has 32
// bytes, or is null for a random seed. Filters can only be united if their seeds are equal.
valkeybloom_status valkeybloom_bloom_new(uint64_t capacity,
                                         double error_rate,
                                         const char *options,
                                         const uint8_t *seed,
                                         valkeybloom_object **filter);

// Adds an item. `is_new` receives whether the filter lacked it.
//
// Options are for filters with a window: TTL ms, as in BF.INSERT, and AT ms, the time in milliseconds since the epoch,
// instead of now, which the server takes from primaries and logs alone. A late item goes to its own period; if it has expired by the time of the latest one, it is refused.
valkeybloom_status valkeybloom_bloom_add(valkeybloom_object *filter,
                                         const uint8_t *item,
                                         size_t item_length,
                                         const char *options,
                                         bool *is_new);

// Adds the items of a batch in order, with the options of valkeybloom_bloom_add. `new_items` receives how many the
// filter lacked. `answers` may be null, or receives a byte for each: 1 if the filter lacked it, else 0; of equal items of
// the batch, only the first is new. If the filter is full and does not grow, the call returns
// VALKEYBLOOM_STATUS_REFUSED; the items before the first one without room are added, and the answers for others are 2. If
// the batch can't be read, nothing is added.
valkeybloom_status valkeybloom_bloom_add_many(valkeybloom_object *filter,
                                              const valkeybloom_batch *batch,
                                              const char *options,
                                              uint8_t *answers,
                                              uint64_t *new_items);

// Makes the union of one or more filters: it claims every item that one of them claims. Filters that BF.MERGE refuses
// to merge are refused. The only option is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_union(const valkeybloom_object *const *filters,
                                           size_t filters_length,
                                           const char *options,
                                           valkeybloom_object **filter);

// Describes a filter. The only option is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_describe(const valkeybloom_object *filter,
                                              const char *options,
                                              valkeybloom_bloom_info *info);

// Estimates the present rate of false positives. All bits of a plain filter are read. The only option
// is AT ms, for filters with a window.
valkeybloom_status valkeybloom_bloom_estimated_error_rate(const valkeybloom_object *filter,
                                                          const char *options,
                                                          double *rate);

// Makes a filter for `capacity` items. Options are those of CF.RESERVE: BUCKETSIZE n, MAXITERATIONS n, EXPANSION n.
valkeybloom_status valkeybloom_cuckoo_new(uint64_t capacity, const char *options, valkeybloom_object **filter);

// Adds an item, or with `unless_present` only an item that the filter lacks. `added` receives whether it was added.
valkeybloom_status valkeybloom_cuckoo_add(valkeybloom_object *filter,
                                          const uint8_t *item,
                                          size_t item_length,
                                          bool unless_present,
                                          bool *added);

// Adds the items of a batch in order, as valkeybloom_cuckoo_add does. `added` receives how many were added. `answers` may
// be null, or receives a byte for each: 1 if it was added, 0 if `unless_present` kept it out, 2 if it had no room. If the
// filter is full, the call returns VALKEYBLOOM_STATUS_REFUSED, and all items that have room are added. If the batch
// can't be read, nothing is added.
valkeybloom_status valkeybloom_cuckoo_add_many(valkeybloom_object *filter,
                                               const valkeybloom_batch *batch,
                                               bool unless_present,
                                               uint8_t *answers,
                                               uint64_t *added);

// Moves items from newer filters of the stack into older ones, and frees filters that become empty, as CF.COMPACT
// does.
valkeybloom_status valkeybloom_cuckoo_compact(valkeybloom_object *filter);

// Describes a filter.
valkeybloom_status valkeybloom_cuckoo_describe(const valkeybloom_object *filter, valkeybloom_cuckoo_info *info);

// Makes a sketch with `depth` rows of `width` counters. The only option is CELL_SIZE n, the size of a counter in
// bytes, as in CMS.INITBYDIM.
valkeybloom_status valkeybloom_count_min_new(uint64_t width,
                                             uint64_t depth,
                                             const char *options,
                                             valkeybloom_object **sketch);

// Makes a sketch whose estimates exceed the true counts by more than `error` times the sum of all counts with
// `probability` at most, as CMS.INITBYPROB does. The only option is CELL_SIZE n.
valkeybloom_status valkeybloom_count_min_from_rates(double error,
                                                    double probability,
                                                    const char *options,
                                                    valkeybloom_object **sketch);

// Adds `by`, which may be negative, to the count of an item. `count` receives the new estimate.
valkeybloom_status valkeybloom_count_min_add(valkeybloom_object *sketch,
                                             const uint8_t *item,
                                             size_t item_length,
                                             int64_t by,
                                             uint64_t *count);

// Counts the items of a batch in order. Adds `by[i]` to item `i`, or 1 if `by` is null. If an item is refused, all
// others are counted. If the batch can't be read, nothing is counted.
valkeybloom_status valkeybloom_count_min_add_many(valkeybloom_object *sketch,
                                                  const valkeybloom_batch *batch,
                                                  const int64_t *by);

// Estimates the counts of the items of a batch. `counts` receives one for each item.
valkeybloom_status valkeybloom_count_min_count_many(const valkeybloom_object *sketch,
                                                    const valkeybloom_batch *batch,
                                                    uint64_t *counts);

// Makes the weighted sum of one or more sketches. If `weights` is null, each has weight 1. Sketches that CMS.MERGE
// refuses to merge are refused.
valkeybloom_status valkeybloom_count_min_merge(const valkeybloom_object *const *sketches,
                                               const int64_t *weights,
                                               size_t sketches_length,
                                               valkeybloom_object **sketch);

// Describes a sketch.
valkeybloom_status valkeybloom_count_min_describe(const valkeybloom_object *sketch, valkeybloom_count_min_info *info);

// Makes a list of the `k` most frequent items, with `depth` rows of `width` cells, as TOPK.RESERVE does. `decay` is the
// probability that a count of 1 is lost to another item. TOPK.RESERVE without these uses width 8, depth 7 and decay 0.9.
valkeybloom_status valkeybloom_top_k_new(uint64_t k,
                                         uint64_t width,
                                         uint64_t depth,
                                         double decay,
                                         valkeybloom_object **list);

// Adds an item `by` times. `expelled` receives the item that it expelled from the list, or a null buffer. `expelled` may
// be null.
valkeybloom_status valkeybloom_top_k_add(valkeybloom_object *list,
                                         const uint8_t *item,
                                         size_t item_length,
                                         int64_t by,
                                         valkeybloom_buffer *expelled);

// Adds the items of a batch in order: item `i` `by[i]` times, or once if `by` is null. `expelled` receives the items
// that were expelled from the list, in order, and may be null. If the batch can't be read, nothing is added. After
// VALKEYBLOOM_STATUS_NO_MEMORY some of the items, or all, are added, and those that they expelled are not returned.
valkeybloom_status valkeybloom_top_k_add_many(valkeybloom_object *list,
                                              const valkeybloom_batch *batch,
                                              const int64_t *by,
                                              valkeybloom_items *expelled);

// Returns the items of the list with their counts, the largest first.
valkeybloom_status valkeybloom_top_k_list(const valkeybloom_object *list, valkeybloom_items *ranking);

// Describes a list.
valkeybloom_status valkeybloom_top_k_describe(const valkeybloom_object *list, valkeybloom_top_k_info *info);

// Makes a digest. The server's default compression is 100. A larger one is more exact and takes more memory.
valkeybloom_status valkeybloom_tdigest_new(uint64_t compression, valkeybloom_object **digest);

// Adds observations. If one of them is infinite or NaN, nothing is added.
valkeybloom_status valkeybloom_tdigest_add(valkeybloom_object *digest, const double *values, size_t length);

// Adds the observations of an Arrow array: doubles, floats or integers. The array stays yours: it is not released.
valkeybloom_status valkeybloom_tdigest_add_array(valkeybloom_object *digest,
                                                 const struct ArrowSchema *schema,
                                                 const struct ArrowArray *array);

// Estimates quantiles: for each share, from 0 to 1, the value that is larger than this share of the observations. NaN if the
// digest is empty. `values` may be `shares`.
valkeybloom_status valkeybloom_tdigest_quantiles(const valkeybloom_object *digest,
                                                 const double *shares,
                                                 size_t length,
                                                 double *values);

// Estimates for each value the share of the observations below it, plus half of those equal to it; NaN if the digest
// is empty or the value is NaN. `shares` may be `values`.
valkeybloom_status valkeybloom_tdigest_cdf(const valkeybloom_object *digest,
                                           const double *values,
                                           size_t length,
                                           double *shares);

// Estimates the rank of each value: the number of observations below it, plus half of those equal to it; -1 if all
// observations are larger, -2 if the digest is empty or the value is NaN. With `reverse`, observations above the value count
// instead of those below it, and the rank is -1 if all are smaller.
valkeybloom_status valkeybloom_tdigest_ranks(const valkeybloom_object *digest,
                                             const double *values,
                                             size_t length,
                                             bool reverse,
                                             int64_t *ranks);

// Estimates the value of each rank, counted from 0 at the smallest observation; infinity past the last one, NaN if the
// digest is empty. With `reverse`, ranks are counted from the largest observation; -infinity is past the last one.
valkeybloom_status valkeybloom_tdigest_by_ranks(const valkeybloom_object *digest,
                                                const uint64_t *ranks,
                                                size_t length,
                                                bool reverse,
                                                double *values);

// Estimates the mean of the observations between two quantiles, from 0 to 1; NaN if the digest is empty. `low` has to be
// below `high`.
valkeybloom_status valkeybloom_tdigest_trimmed_mean(const valkeybloom_object *digest,
                                                    double low,
                                                    double high,
                                                    double *mean);

// Makes a digest with the observations of one or more digests. If `compression` is 0, it is the largest of theirs.
valkeybloom_status valkeybloom_tdigest_merge(const valkeybloom_object *const *digests,
                                             size_t digests_length,
                                             uint64_t compression,
                                             valkeybloom_object **digest);

// Describes a digest.
valkeybloom_status valkeybloom_tdigest_describe(const valkeybloom_object *digest, valkeybloom_tdigest_info *info);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VALKEYBLOOM_H */
