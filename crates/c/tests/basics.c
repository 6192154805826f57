// Each function of the header once, and what it refuses.

#include <math.h>
#include <pthread.h>

#include "check.h"

// Arrow's C data interface.
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

// The library must not release what it borrows.
static void schema_is_kept(struct ArrowSchema *schema) {
    (void)schema;
    CHECK(!"the schema was released");
}
static void array_is_kept(struct ArrowArray *array) {
    (void)array;
    CHECK(!"the array was released");
}

static const int32_t small[] = {0, 3, 8, 8, 12};
static const int64_t large[] = {0, 3, 8, 8, 12};
#define DATA (const uint8_t *)"redgreenblue", 12
static const valkeybloom_batch by_small = {.length = 4, .data = DATA, .offsets32 = small};
static const valkeybloom_batch by_large = {.length = 4, .data = DATA, .offsets64 = large};

static bool equal(const valkeybloom_object *one, const valkeybloom_object *other) {
    bool equal = false;
    OK(valkeybloom_equal(one, other, &equal));
    return equal;
}

// Copies an object, and removes all items of the copy.
static valkeybloom_object *emptied_copy(const valkeybloom_object *object) {
    valkeybloom_object *copy = NULL;
    OK(valkeybloom_copy(object, &copy));
    CHECK(equal(object, copy));
    OK(valkeybloom_clear(copy));
    return copy;
}

static bool contains(const valkeybloom_object *object, const char *item, const char *options) {
    bool found = false;
    OK(valkeybloom_contains(object, TEXT(item), options, &found));
    return found;
}

static uint64_t count(const valkeybloom_object *object, const char *item) {
    uint64_t count = 0;
    OK(valkeybloom_count(object, TEXT(item), &count));
    return count;
}

static void bloom_filters(void) {
    at = "Bloom filters";
    valkeybloom_object *filter = NULL, *other = NULL;
    uint8_t seed[32] = {7}, answers[4];
    bool flag = false;
    uint64_t number = 0;
    OK(valkeybloom_bloom_new(1000, 0.01, NULL, seed, &filter));
    OK(valkeybloom_bloom_add(filter, TEXT("red"), NULL, &flag));
    CHECK(flag);
    OK(valkeybloom_bloom_add(filter, TEXT("red"), NULL, &flag));
    CHECK(!flag);
    // Nothing is added if the result has no place.
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "place", valkeybloom_bloom_add_many(filter, &by_small, NULL, NULL, (void *)1));
    OK(valkeybloom_bloom_add_many(filter, &by_small, NULL, NULL, &number));
    CHECK(number == 3);
    OK(valkeybloom_bloom_new(2, 0.01, "NONSCALING", seed, &other));
    OK(valkeybloom_bloom_add(other, TEXT("green"), NULL, NULL));
    CHECK(valkeybloom_bloom_add_many(other, &by_large, NULL, answers, NULL) == VALKEYBLOOM_STATUS_REFUSED);
    CHECK(memcmp(answers, "\1\0\2\2", 4) == 0);
    valkeybloom_free(other);
    OK(valkeybloom_contains(filter, NULL, 0, NULL, &flag));
    CHECK(flag);
    CHECK(!contains(filter, "yellow", NULL));
    OK(valkeybloom_contains_many(filter, &by_large, NULL, answers));
    CHECK(memcmp(answers, "\1\1\1\1", 4) == 0);
    OK(valkeybloom_bloom_add(filter, TEXT("black"), NULL, NULL));
    valkeybloom_bloom_info info = {.size = sizeof info};
    OK(valkeybloom_bloom_describe(filter, NULL, &info));
    CHECK(info.items == 5 && info.capacity == 1000 && info.filters == 1 && info.error_rate == 0.01);
    CHECK(info.expansion == 2 && info.window_ms == 0 && !info.is_counting && info.memory_bytes > 1000);
    CHECK(info.has_seed && memcmp(info.seed, seed, 32) == 0);
    double rate = 1;
    OK(valkeybloom_bloom_estimated_error_rate(filter, NULL, &rate));
    CHECK(rate < 0.01);

    other = emptied_copy(filter);
    OK(valkeybloom_bloom_add(other, TEXT("yellow"), NULL, NULL));
    CHECK(!equal(filter, other));
    valkeybloom_object *united = NULL, *lone = NULL;
    const valkeybloom_object *both[] = {filter, other};
    OK(valkeybloom_bloom_union(both, 2, NULL, &united));
    OK(valkeybloom_bloom_describe(united, NULL, &info));
    CHECK(info.items >= 6);
    CHECK(contains(united, "yellow", NULL));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "nothing", valkeybloom_bloom_union(NULL, 0, NULL, &lone));
    OK(valkeybloom_bloom_new(1000, 0.01, NULL, NULL, &lone));
    const valkeybloom_object *unlike[] = {filter, lone};
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "seed", valkeybloom_bloom_union(unlike, 2, NULL, &united));
    valkeybloom_free(lone);
    valkeybloom_free(united);
    valkeybloom_free(other);

    valkeybloom_buffer bytes;
    OK(valkeybloom_to_bytes(filter, &bytes));
    OK(valkeybloom_from_bytes(bytes.data, bytes.length, &other));
    CHECK(equal(filter, other));
    valkeybloom_free(other);
    other = NULL;
    for (size_t end = 0; end < bytes.length; end++) {
        FAILS(VALKEYBLOOM_STATUS_UNDECODABLE, "", valkeybloom_from_bytes(bytes.data, end, &other));
    }
    CHECK(other == NULL);
    valkeybloom_buffer_free(&bytes);
    CHECK(bytes.data == NULL && bytes.length == 0);
    valkeybloom_buffer_free(&bytes);

    FAILS(VALKEYBLOOM_STATUS_REFUSED, "error rate", valkeybloom_bloom_new(1000, 2, NULL, NULL, &other));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "error rate", valkeybloom_bloom_new(1000, NAN, NULL, NULL, &other));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_bloom_new(1000, 0.01, "EXPANSION", NULL, &other));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "EX", valkeybloom_bloom_new(1000, 0.01, "EX 60", NULL, &other));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_bloom_add(filter, TEXT("a"), "CAPACITY 5", &flag));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_bloom_add_many(filter, &by_small, "ID 5", NULL, NULL));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "AT", valkeybloom_contains(filter, TEXT("a"), "TTL 5", &flag));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_contains(filter, TEXT("a"), "AT", &flag));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "COUNTING", valkeybloom_remove(filter, TEXT("a"), &flag));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "SCALETO", valkeybloom_bloom_new(9, 0.01, "NONSCALING SCALETO 9", NULL, &other));
    FAILS(VALKEYBLOOM_STATUS_NO_MEMORY, "memory", valkeybloom_bloom_new(UINT64_MAX / 1024, 0.01, NULL, NULL, &other));
    CHECK(other == NULL);
    valkeybloom_free(filter);

    OK(valkeybloom_bloom_new(10, 0.01, "COUNTING", NULL, &filter));
    for (int i = 1; i <= 20; i++) {
        OK(valkeybloom_bloom_add(filter, TEXT("a"), NULL, NULL));
        CHECK(count(filter, "a") == (uint64_t)i);
    }
    for (int i = 0; i <= 20; i++) {
        OK(valkeybloom_remove(filter, TEXT("a"), &flag));
        CHECK(flag == (i < 20));
    }
    valkeybloom_free(filter);

    OK(valkeybloom_bloom_new(10, 0.01, "SCALETO 1000000", NULL, &filter));
    OK(valkeybloom_bloom_describe(filter, NULL, &info));
    CHECK(info.capacity == 1000000 && info.filters == 1 && !info.is_counting && info.memory_bytes < 2000);
    valkeybloom_free(filter);

    OK(valkeybloom_bloom_new(10, 0.01, "WINDOW 1000 PERIODS 4", NULL, &filter));
    OK(valkeybloom_bloom_add(filter, TEXT("a"), "AT 5000 TTL 2000", NULL));
    CHECK(contains(filter, "a", "at 5999"));
    CHECK(!contains(filter, "a", "AT 9000"));
    OK(valkeybloom_bloom_describe(filter, "AT 5000", &info));
    CHECK(info.window_ms == 1000 && info.periods == 4 && info.items == 1);
    OK(valkeybloom_bloom_add(filter, TEXT("b"), "AT 6000", NULL));
    OK(valkeybloom_bloom_add(filter, TEXT("c"), "AT 3000", NULL));
    CHECK(contains(filter, "b", "AT 9000"));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "expired", valkeybloom_bloom_add(filter, TEXT("d"), "AT 99", NULL));
    valkeybloom_free(filter);
    valkeybloom_free(NULL);
}

// Chunks travel from one object to another.
static void chunks(void) {
    at = "chunks";
    valkeybloom_object *filters[2], *again = NULL;
    OK(valkeybloom_bloom_new(1000, 0.01, NULL, NULL, &filters[0]));
    OK(valkeybloom_bloom_add_many(filters[0], &by_small, NULL, NULL, NULL));
    OK(valkeybloom_cuckoo_new(1000, "BUCKETSIZE 4", &filters[1]));
    OK(valkeybloom_cuckoo_add_many(filters[1], &by_small, false, NULL, NULL));
    const valkeybloom_family families[] = {VALKEYBLOOM_FAMILY_BLOOM, VALKEYBLOOM_FAMILY_CUCKOO};
    for (int i = 0; i < 2; i++) {
        valkeybloom_loader *loader = NULL;
        valkeybloom_buffer chunk;
        uint64_t cursor = 0;
        int count = 0;
        OK(valkeybloom_loader_new(families[i], &loader));
        FAILS(VALKEYBLOOM_STATUS_UNDECODABLE, "chunk", valkeybloom_loader_finish(loader, &again));
        FAILS(VALKEYBLOOM_STATUS_UNDECODABLE, "chunk", valkeybloom_loader_load(loader, 5, TEXT("x")));
        do {
            OK(valkeybloom_next_chunk(filters[i], &cursor, &chunk));
            OK(valkeybloom_loader_load(loader, cursor, chunk.data, chunk.length));
            valkeybloom_buffer_free(&chunk);
            count++;
        } while (cursor != 0);
        CHECK(count == 3);
        OK(valkeybloom_loader_finish(loader, &again));
        CHECK(equal(filters[i], again));
        // The loader is empty again, also after an error. One that is not may be freed as well.
        OK(valkeybloom_next_chunk(filters[i], &cursor, &chunk));
        OK(valkeybloom_loader_load(loader, cursor, chunk.data, chunk.length));
        valkeybloom_object *none = NULL;
        FAILS(VALKEYBLOOM_STATUS_UNDECODABLE, "the filter lacks chunks", valkeybloom_loader_finish(loader, &none));
        OK(valkeybloom_loader_load(loader, cursor, chunk.data, chunk.length));
        valkeybloom_buffer_free(&chunk);
        valkeybloom_loader_free(loader);
        valkeybloom_free(again);
        valkeybloom_free(filters[i]);
    }
    valkeybloom_loader_free(NULL);
}

static void cuckoo_filters(void) {
    at = "cuckoo filters";
    valkeybloom_object *filter = NULL, *other = NULL;
    uint8_t answers[4];
    bool flag = false;
    uint64_t number = 0;
    OK(valkeybloom_cuckoo_new(1000, "BUCKETSIZE 4", &filter));
    OK(valkeybloom_cuckoo_add(filter, TEXT("red"), false, &flag));
    OK(valkeybloom_cuckoo_add(filter, TEXT("red"), false, &flag));
    CHECK(flag);
    OK(valkeybloom_cuckoo_add(filter, TEXT("red"), true, &flag));
    CHECK(!flag);
    CHECK(count(filter, "red") == 2);
    OK(valkeybloom_cuckoo_add_many(filter, &by_large, true, NULL, &number));
    CHECK(number == 3);
    OK(valkeybloom_cuckoo_new(2, "BUCKETSIZE 1", &other));
    OK(valkeybloom_cuckoo_add(other, TEXT("green"), false, NULL));
    valkeybloom_limit_growth(1 << 20, 1);
    CHECK(valkeybloom_cuckoo_add_many(other, &by_large, true, answers, NULL) == VALKEYBLOOM_STATUS_REFUSED);
    CHECK(answers[1] == 0 && memchr(answers, 1, 4) && memchr(answers, 2, 4));
    valkeybloom_limit_growth(1 << 20, 32);
    OK(valkeybloom_cuckoo_add_many(other, &by_large, true, answers, NULL));
    valkeybloom_free(other);
    OK(valkeybloom_contains_many(filter, &by_small, NULL, answers));
    CHECK(memcmp(answers, "\1\1\1\1", 4) == 0);
    OK(valkeybloom_remove(filter, TEXT("blue"), &flag));
    CHECK(flag);
    CHECK(!contains(filter, "blue", NULL));
    OK(valkeybloom_cuckoo_compact(filter));
    valkeybloom_cuckoo_info info = {.size = sizeof info};
    OK(valkeybloom_cuckoo_describe(filter, &info));
    CHECK(info.items == 4 && info.bucket_size == 4 && info.slots >= 1000 && info.filters == 1);
    other = emptied_copy(filter);
    CHECK(!equal(filter, other));
    valkeybloom_free(other);
    valkeybloom_free(filter);
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "apacity", valkeybloom_cuckoo_new(0, NULL, &filter));
}

static void count_min_sketches(void) {
    at = "count-min sketches";
    valkeybloom_object *sketch = NULL, *other = NULL;
    uint64_t counts[4], number = 0;
    int64_t by[] = {1, 2, 3, 4};
    OK(valkeybloom_count_min_new(2000, 5, NULL, &sketch));
    OK(valkeybloom_count_min_add(sketch, TEXT("red"), 5, &number));
    CHECK(number == 5);
    OK(valkeybloom_count_min_add_many(sketch, &by_small, by));
    OK(valkeybloom_count_min_add_many(sketch, &by_small, NULL));
    OK(valkeybloom_count_min_count_many(sketch, &by_large, counts));
    CHECK(counts[0] == 7 && counts[1] == 3 && counts[2] == 4 && counts[3] == 5);
    CHECK(count(sketch, "yellow") == 0);
    const valkeybloom_object *both[] = {sketch, sketch};
    int64_t weights[] = {1, 2};
    OK(valkeybloom_count_min_merge(both, weights, 2, &other));
    CHECK(count(other, "red") == 21);
    valkeybloom_free(other);
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "nothing", valkeybloom_count_min_merge(NULL, NULL, 0, &other));
    OK(valkeybloom_count_min_merge(both, NULL, 2, &other));
    CHECK(count(other, "red") == 14);
    CHECK(!equal(sketch, other));
    valkeybloom_free(other);
    other = emptied_copy(sketch);
    valkeybloom_count_min_info info = {.size = sizeof info};
    OK(valkeybloom_count_min_describe(other, &info));
    CHECK(info.width == 2000 && info.depth == 5 && info.total == 0 && info.cell_size == 4);
    valkeybloom_free(other);
    valkeybloom_free(sketch);
    OK(valkeybloom_count_min_from_rates(0.001, 0.01, NULL, &sketch));
    valkeybloom_free(sketch);
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "width", valkeybloom_count_min_new(0, 5, NULL, &sketch));
}

static void top_k_lists(void) {
    at = "top-k lists";
    valkeybloom_object *list = NULL, *other = NULL;
    valkeybloom_buffer expelled;
    valkeybloom_items items;
    uint8_t answers[4];
    OK(valkeybloom_top_k_new(2, 50, 5, 0.9, &list));
    OK(valkeybloom_top_k_add(list, TEXT("red"), 3, &expelled));
    CHECK(expelled.data == NULL);
    OK(valkeybloom_top_k_add(list, NULL, 0, 1, &expelled));
    CHECK(expelled.data == NULL);
    // The empty item leaves: it is not null.
    OK(valkeybloom_top_k_add(list, TEXT("green"), 9, &expelled));
    CHECK(expelled.data != NULL && expelled.length == 0);
    valkeybloom_buffer_free(&expelled);
    OK(valkeybloom_top_k_list(list, &items));
    CHECK(items.length == 2 && items.counts[0] == 9 && items.counts[1] == 3);
    CHECK(items.data_length == 8 && memcmp(items.data, "greenred", 8) == 0);
    CHECK(items.offsets[0] == 0 && items.offsets[1] == 5 && items.offsets[2] == 8);
    // Items that are returned are a batch.
    valkeybloom_batch batch = {
        .length = items.length, .data = items.data, .data_length = items.data_length, .offsets64 = items.offsets};
    OK(valkeybloom_contains_many(list, &batch, NULL, answers));
    CHECK(answers[0] && answers[1]);
    valkeybloom_items_free(&items);
    CHECK(items.data == NULL && items.length == 0);
    valkeybloom_items_free(&items);
    int64_t by[] = {1, 1, 1, 100};
    OK(valkeybloom_top_k_add_many(list, &by_small, by, &items));
    CHECK(items.length == 1 && items.counts == NULL && memcmp(items.data, "red", 3) == 0);
    valkeybloom_items_free(&items);
    OK(valkeybloom_top_k_add_many(list, &by_small, NULL, NULL));
    CHECK(contains(list, "blue", NULL));
    CHECK(count(list, "blue") == 101);
    valkeybloom_top_k_info info = {.size = sizeof info};
    OK(valkeybloom_top_k_describe(list, &info));
    CHECK(info.k == 2 && info.width == 50 && info.depth == 5 && info.decay == 0.9 && info.items == 2);
    other = emptied_copy(list);
    OK(valkeybloom_top_k_list(other, &items));
    CHECK(items.length == 0);
    valkeybloom_items_free(&items);
    valkeybloom_free(other);
    valkeybloom_free(list);
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_top_k_new(2, 50, 5, 7, &list));
}

static void t_digests(void) {
    at = "t-digests";
    valkeybloom_object *digest = NULL, *other = NULL;
    double values[] = {1, 2, 3, 4, 5}, answers[5], mean = 0;
    int64_t ranks[5];
    uint64_t by[] = {0, 4, 5};
    OK(valkeybloom_tdigest_new(100, &digest));
    OK(valkeybloom_tdigest_add(digest, values, 5));
    double shares[] = {0, 0.5, 1};
    OK(valkeybloom_tdigest_quantiles(digest, shares, 3, shares));
    CHECK(shares[0] == 1 && shares[1] == 3 && shares[2] == 5);
    OK(valkeybloom_tdigest_cdf(digest, values, 5, answers));
    CHECK(answers[0] == 0.1 && answers[4] == 0.9);
    OK(valkeybloom_tdigest_ranks(digest, values, 5, false, ranks));
    CHECK(ranks[0] == 0 && ranks[4] == 4);
    OK(valkeybloom_tdigest_ranks(digest, values, 5, true, ranks));
    CHECK(ranks[0] == 4 && ranks[4] == 0);
    OK(valkeybloom_tdigest_by_ranks(digest, by, 3, false, answers));
    CHECK(answers[0] == 1 && answers[1] == 5 && isinf(answers[2]));
    OK(valkeybloom_tdigest_by_ranks(digest, by, 3, true, answers));
    CHECK(answers[0] == 5 && answers[1] == 1 && isinf(answers[2]));
    OK(valkeybloom_tdigest_trimmed_mean(digest, 0, 1, &mean));
    CHECK(mean == 3);
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_tdigest_trimmed_mean(digest, 0.5, 0.5, &mean));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_tdigest_trimmed_mean(digest, 0, NAN, &mean));
    double none = NAN;
    OK(valkeybloom_tdigest_cdf(digest, &none, 1, answers));
    CHECK(isnan(answers[0]));
    for (int reverse = 0; reverse < 2; reverse++) {
        OK(valkeybloom_tdigest_ranks(digest, &none, 1, reverse, ranks));
        CHECK(ranks[0] == -2);
    }
    const valkeybloom_object *both[] = {digest, digest};
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "nothing", valkeybloom_tdigest_merge(NULL, 0, 0, &other));
    OK(valkeybloom_tdigest_merge(both, 2, 0, &other));
    valkeybloom_tdigest_info info = {.size = sizeof info};
    OK(valkeybloom_tdigest_describe(other, &info));
    CHECK(info.compression == 100 && info.observations == 10 && info.min == 1 && info.max == 5);
    valkeybloom_free(other);
    other = emptied_copy(digest);
    OK(valkeybloom_tdigest_cdf(other, values, 1, answers));
    CHECK(isnan(answers[0]));
    OK(valkeybloom_tdigest_ranks(other, values, 1, false, ranks));
    CHECK(ranks[0] == -2);
    OK(valkeybloom_tdigest_trimmed_mean(other, 0, 1, &mean));
    CHECK(isnan(mean));

    int32_t numbers[] = {0, 7, 9};
    const void *buffers[] = {NULL, numbers};
    struct ArrowSchema schema = {.format = "i", .release = schema_is_kept};
    struct ArrowArray array = {
        .length = 2, .offset = 1, .n_buffers = 2, .buffers = buffers, .release = array_is_kept};
    OK(valkeybloom_tdigest_add_array(other, &schema, &array));
    OK(valkeybloom_tdigest_describe(other, &info));
    CHECK(info.observations == 2 && info.min == 7 && info.max == 9);
    valkeybloom_free(other);
    values[2] = INFINITY;
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_tdigest_add(digest, values, 5));
    shares[0] = 2;
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_tdigest_quantiles(digest, shares, 3, answers));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "", valkeybloom_tdigest_new(0, &other));
    valkeybloom_free(digest);
}

static void batches(void) {
    at = "batches";
    valkeybloom_object *filter = NULL;
    uint8_t answers[4];
    uint64_t number = 0;
    OK(valkeybloom_bloom_new(1000, 0.01, NULL, NULL, &filter));
    const void *buffers[] = {NULL, small, "redgreenblue"};
    struct ArrowSchema schema = {.format = "u", .release = schema_is_kept};
    struct ArrowArray array = {
        .length = 4, .n_buffers = 3, .buffers = buffers, .release = array_is_kept};
    valkeybloom_batch batch = {.schema = &schema, .array = &array};
    OK(valkeybloom_bloom_add_many(filter, &batch, NULL, NULL, &number));
    CHECK(number == 4);
    // Items that are numbers are their digits.
    int64_t numbers[] = {42, -1};
    const void *of_numbers[] = {NULL, numbers};
    schema.format = "l";
    array.length = 2;
    array.n_buffers = 2;
    array.buffers = of_numbers;
    OK(valkeybloom_bloom_add_many(filter, &batch, NULL, NULL, &number));
    CHECK(number == 2);
    CHECK(contains(filter, "42", NULL));
    schema.format = "g";
    FAILS(VALKEYBLOOM_STATUS_BAD_TYPE, "float", valkeybloom_bloom_add_many(filter, &batch, NULL, NULL, NULL));
    schema.format = "l";
    uint8_t valid = 1;
    of_numbers[0] = &valid;
    array.null_count = 1;
    FAILS(VALKEYBLOOM_STATUS_BAD_BATCH, "item 1 is null", valkeybloom_bloom_add_many(filter, &batch, NULL, NULL, NULL));

    batch = (valkeybloom_batch){0};
    OK(valkeybloom_bloom_add_many(filter, &batch, NULL, NULL, &number));
    CHECK(number == 0);
    OK(valkeybloom_contains_many(filter, &batch, NULL, NULL));
    int64_t wrong[][5] = {{0, 3, 2, 8, 12}, {0, 3, 8, 8, 13}, {-1, 3, 8, 8, 12}, {0, 3, 8, 8, INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        batch = by_large;
        batch.offsets64 = wrong[i];
        FAILS(VALKEYBLOOM_STATUS_BAD_BATCH, "offset", valkeybloom_contains_many(filter, &batch, NULL, answers));
    }
    batch = by_large;
    batch.offsets32 = small;
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "batch", valkeybloom_contains_many(filter, &batch, NULL, answers));
    batch.offsets32 = NULL;
    batch.offsets64 = NULL;
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "batch", valkeybloom_contains_many(filter, &batch, NULL, answers));
    batch.offsets64 = (const int64_t *)((const char *)large + 1);
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "aligned", valkeybloom_contains_many(filter, &batch, NULL, answers));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "null", valkeybloom_contains_many(filter, &by_small, NULL, NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "null", valkeybloom_contains_many(filter, NULL, NULL, answers));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "null", valkeybloom_bloom_add(filter, NULL, 1, NULL, NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "null", valkeybloom_bloom_add(NULL, TEXT("a"), NULL, NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "place", valkeybloom_bloom_new(10, 0.01, NULL, NULL, NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "place", valkeybloom_to_bytes(filter, NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "longer", valkeybloom_bloom_add(filter, (const uint8_t *)"a", SIZE_MAX, NULL, NULL));
    valkeybloom_free(filter);
}

// Every call refuses objects of the families that it is not for, and a description whose size is not set.
static void other_families(void) {
    at = "other families";
    enum { FAMILIES = 5 };
    valkeybloom_object *all[FAMILIES] = {0}, *made = NULL;
    OK(valkeybloom_bloom_new(100, 0.01, "COUNTING", NULL, &all[0]));
    OK(valkeybloom_cuckoo_new(100, NULL, &all[1]));
    OK(valkeybloom_count_min_new(10, 2, NULL, &all[2]));
    OK(valkeybloom_top_k_new(2, 8, 7, 0.9, &all[3]));
    OK(valkeybloom_tdigest_new(100, &all[4]));
    // For each call, a bit for each family that has it.
    enum { FILTERS = 3, CLAIMS = 11, COUNTS = 15 };
    valkeybloom_loader *loader = NULL;
    double number = 0.5, answer;
    uint64_t rank = 0, count;
    int64_t ranks;
    uint8_t answers[1];
    bool flag;
    const int32_t offsets[] = {0, 1};
    valkeybloom_batch batch = {.length = 1, .data = (const uint8_t *)"a", .data_length = 1, .offsets32 = offsets};
    for (int i = 0; i < FAMILIES; i++) {
        valkeybloom_object *object = all[i];
        const valkeybloom_object *one[] = {object};
        valkeybloom_family family = 0;
        OK(valkeybloom_family_of(object, &family));
        CHECK((int)family == i + 1);
        for (int j = 0; j < FAMILIES; j++) {
            OK(valkeybloom_equal(object, all[j], &flag));
            CHECK(flag == (i == j));
        }
#define HAVE(families, call) \
        do { \
            valkeybloom_status status = (call); \
            CHECK((status == VALKEYBLOOM_STATUS_BAD_FAMILY) == !((families) >> i & 1)); \
            CHECK(status == VALKEYBLOOM_STATUS_OK || status == VALKEYBLOOM_STATUS_BAD_FAMILY); \
        } while (0)
        HAVE(CLAIMS, valkeybloom_contains(object, TEXT("a"), NULL, &flag));
        HAVE(CLAIMS, valkeybloom_contains_many(object, &batch, NULL, answers));
        HAVE(COUNTS, valkeybloom_count(object, TEXT("a"), &count));
        HAVE(FILTERS, valkeybloom_remove(object, TEXT("a"), &flag));
        valkeybloom_buffer chunk = {0};
        uint64_t cursor = 0;
        HAVE(FILTERS, valkeybloom_next_chunk(object, &cursor, &chunk));
        valkeybloom_buffer_free(&chunk);
        HAVE(FILTERS, valkeybloom_loader_new(family, &loader));
        valkeybloom_loader_free(loader);
        loader = NULL;
        HAVE(1, valkeybloom_bloom_add(object, TEXT("a"), NULL, NULL));
        HAVE(1, valkeybloom_bloom_add_many(object, &batch, NULL, NULL, NULL));
        HAVE(1, valkeybloom_bloom_add_many(object, &batch, NULL, answers, NULL));
        HAVE(1, valkeybloom_bloom_union(one, 1, NULL, &made));
        valkeybloom_free(made);
        made = NULL;
        HAVE(1, valkeybloom_bloom_estimated_error_rate(object, NULL, NULL));
        HAVE(2, valkeybloom_cuckoo_add(object, TEXT("a"), false, NULL));
        HAVE(2, valkeybloom_cuckoo_add_many(object, &batch, false, NULL, NULL));
        HAVE(2, valkeybloom_cuckoo_add_many(object, &batch, false, answers, NULL));
        HAVE(2, valkeybloom_cuckoo_compact(object));
        HAVE(4, valkeybloom_count_min_add(object, TEXT("a"), 1, NULL));
        HAVE(4, valkeybloom_count_min_add_many(object, &batch, NULL));
        HAVE(4, valkeybloom_count_min_count_many(object, &batch, &count));
        HAVE(4, valkeybloom_count_min_merge(one, NULL, 1, &made));
        valkeybloom_free(made);
        made = NULL;
        HAVE(8, valkeybloom_top_k_add(object, TEXT("a"), 1, NULL));
        HAVE(8, valkeybloom_top_k_add_many(object, &batch, NULL, NULL));
        valkeybloom_items ranking = {0};
        HAVE(8, valkeybloom_top_k_list(object, &ranking));
        valkeybloom_items_free(&ranking);
        HAVE(16, valkeybloom_tdigest_add(object, &number, 1));
        HAVE(16, valkeybloom_tdigest_quantiles(object, &number, 1, &answer));
        HAVE(16, valkeybloom_tdigest_cdf(object, &number, 1, &answer));
        HAVE(16, valkeybloom_tdigest_ranks(object, &number, 1, false, &ranks));
        HAVE(16, valkeybloom_tdigest_ranks(object, &number, 1, true, &ranks));
        HAVE(16, valkeybloom_tdigest_by_ranks(object, &rank, 1, false, &answer));
        HAVE(16, valkeybloom_tdigest_by_ranks(object, &rank, 1, true, &answer));
        HAVE(16, valkeybloom_tdigest_trimmed_mean(object, 0, 1, &answer));
        HAVE(16, valkeybloom_tdigest_merge(one, 1, 0, &made));
        valkeybloom_free(made);
        made = NULL;
#define DESCRIBE(families, name, ...) \
        do { \
            struct { name info; char behind[8]; } larger = {.info = {.size = sizeof larger}}; \
            HAVE(families, __VA_ARGS__(object, &larger.info)); \
            CHECK(!((families) >> i & 1) || larger.info.size == sizeof larger.info); \
            larger.info.size = sizeof larger.info - 1; \
            FAILS(VALKEYBLOOM_STATUS_REFUSED, "size", __VA_ARGS__(object, &larger.info)); \
        } while (0)
#define DESCRIBE_BLOOM(object, info) valkeybloom_bloom_describe(object, NULL, info)
        DESCRIBE(1, valkeybloom_bloom_info, DESCRIBE_BLOOM);
        DESCRIBE(2, valkeybloom_cuckoo_info, valkeybloom_cuckoo_describe);
        DESCRIBE(4, valkeybloom_count_min_info, valkeybloom_count_min_describe);
        DESCRIBE(8, valkeybloom_top_k_info, valkeybloom_top_k_describe);
        DESCRIBE(16, valkeybloom_tdigest_info, valkeybloom_tdigest_describe);
    }
    FAILS(VALKEYBLOOM_STATUS_BAD_FAMILY, "not a Bloom filter", valkeybloom_bloom_add(all[1], TEXT("a"), NULL, NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_FAMILY, "t-digest has no counts", valkeybloom_count(all[4], TEXT("a"), NULL));
    FAILS(VALKEYBLOOM_STATUS_REFUSED, "options", valkeybloom_contains(all[1], TEXT("a"), "AT 5", NULL));
    FAILS(VALKEYBLOOM_STATUS_BAD_FAMILY, "chunks", valkeybloom_loader_new(77, &loader));
    FAILS(VALKEYBLOOM_STATUS_UNDECODABLE, "", valkeybloom_from_bytes(TEXT("rubbish"), &made));
    FAILS(VALKEYBLOOM_STATUS_BAD_POINTER, "null", valkeybloom_cuckoo_describe(all[1], NULL));
    for (int i = 0; i < FAMILIES; i++) valkeybloom_free(all[i]);
}

// Each thread has its own last error, and adds its own items to one filter.
static void *thread(void *shared) {
    char item[32];
    valkeybloom_object *filter = shared;
    CHECK(strcmp(valkeybloom_last_error(), "") == 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(item, sizeof item, "%p %d", (void *)&item, i);
        OK(valkeybloom_bloom_add(filter, TEXT(item), NULL, NULL));
        OK(valkeybloom_bloom_add_many(filter, &by_small, NULL, NULL, NULL));
    }
    CHECK(valkeybloom_bloom_add(NULL, NULL, 0, NULL, NULL) == VALKEYBLOOM_STATUS_BAD_POINTER);
    CHECK(strcmp(valkeybloom_last_error(), "a pointer is null") == 0);
    return NULL;
}

static void threads(void) {
    at = "threads";
    pthread_t all[4];
    valkeybloom_object *filter = NULL;
    valkeybloom_bloom_info info = {.size = sizeof info};
    OK(valkeybloom_bloom_new(100000, 0.0001, NULL, NULL, &filter));
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&all[i], NULL, thread, filter) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(all[i], NULL) == 0);
    OK(valkeybloom_bloom_describe(filter, NULL, &info));
    // A false positive or two may have hidden an item.
    CHECK(info.items <= 4004 && info.items >= 4000);
    valkeybloom_free(filter);
}

int main(void) {
    CHECK(strlen(valkeybloom_version()) >= 5);
    threads();
    bloom_filters();
    chunks();
    cuckoo_filters();
    count_min_sketches();
    top_k_lists();
    t_digests();
    batches();
    other_families();
    puts("basics: all is well");
    return 0;
}
