// The golden vectors of tests/vectors, which docs/vectors.md describes. Each case is carried out item by item, and once
// more in batches. cJSON has texts that end at their first zero, so an item with one has to be given in hexadecimal digits.

#include <cjson/cJSON.h>
#include <math.h>

#include "check.h"

static const cJSON *field(const cJSON *of, const char *name) { return cJSON_GetObjectItemCaseSensitive(of, name); }

static double number(const cJSON *of, const char *name) {
    CHECK(cJSON_IsNumber(field(of, name)));
    return field(of, name)->valuedouble;
}

static valkeybloom_buffer unhex(const char *digits) {
    valkeybloom_buffer bytes = {malloc(strlen(digits) / 2 + 1), strlen(digits) / 2};
    CHECK(bytes.data != NULL);
    for (size_t i = 0; i < bytes.length; i++) {
        unsigned byte = 0;
        CHECK(sscanf(digits + 2 * i, "%2x", &byte) == 1);
        bytes.data[i] = (uint8_t)byte;
    }
    return bytes;
}

// Returns the bytes of an item, for the caller to free.
static valkeybloom_buffer item_of(const cJSON *item) {
    if (!cJSON_IsString(item))
        return unhex(field(item, "hex")->valuestring);
    valkeybloom_buffer bytes = {malloc(strlen(item->valuestring) + 1), strlen(item->valuestring)};
    CHECK(bytes.data != NULL);
    memcpy(bytes.data, item->valuestring, bytes.length);
    return bytes;
}

// The items of a step as a batch, with the numbers of those that are pairs.
struct step {
    valkeybloom_batch batch;
    uint8_t *data;
    int32_t *offsets32;
    int64_t *offsets64;
    int64_t *by;
    double *doubles;
    int length;
};

static struct step step_of(const cJSON *argument) {
    struct step step = {.length = cJSON_GetArraySize(argument)};
    size_t count = (size_t)step.length + 1;
    step.offsets32 = calloc(count, sizeof *step.offsets32);
    step.offsets64 = calloc(count, sizeof *step.offsets64);
    step.by = calloc(count, sizeof *step.by);
    step.doubles = calloc(count, sizeof *step.doubles);
    CHECK(step.offsets32 && step.offsets64 && step.by && step.doubles);
    size_t end = 0;
    int i = 0;
    const cJSON *element;
    cJSON_ArrayForEach(element, argument) {
        step.doubles[i] = element->valuedouble;
        step.by[i] = 1;
        if (cJSON_IsArray(element)) {
            step.by[i] = (int64_t)cJSON_GetArrayItem(element, 1)->valuedouble;
            element = cJSON_GetArrayItem(element, 0);
        }
        if (!cJSON_IsNumber(element)) {
            valkeybloom_buffer item = item_of(element);
            step.data = realloc(step.data, end + item.length + 1);
            CHECK(step.data != NULL);
            memcpy(step.data + end, item.data, item.length);
            end += item.length;
            free(item.data);
        }
        step.offsets32[i + 1] = (int32_t)end;
        step.offsets64[i + 1] = (int64_t)end;
        i++;
        // The element of the step, if it was a pair.
        element = cJSON_GetArrayItem(argument, i - 1);
    }
    step.batch = (valkeybloom_batch){
        .length = (size_t)step.length, .data = step.data, .data_length = end, .offsets64 = step.offsets64};
    return step;
}

static void free_step(struct step *step) {
    free(step->data);
    free(step->offsets32);
    free(step->offsets64);
    free(step->by);
    free(step->doubles);
}

#define ITEM(step, i) (step)->data + (step)->offsets64[i], (size_t)((step)->offsets64[(i) + 1] - (step)->offsets64[i])

// JSON has no infinite numbers and no NaN, so these are texts.
static bool is_double(const cJSON *expected, double found) {
    if (cJSON_IsNumber(expected))
        return expected->valuedouble == found;
    const char *text = expected->valuestring;
    return strcmp(text, "nan") == 0 ? isnan(found) : isinf(found) && (text[0] == '-') == (found < 0);
}

// Holds the status of a call against a reply. Returns whether it succeeded.
static bool succeeded(valkeybloom_status status, const cJSON *reply) {
    const cJSON *error = field(reply, "error");
    CHECK((status == VALKEYBLOOM_STATUS_OK) == (error == NULL));
    if (error == NULL)
        return true;
    CHECK(status == VALKEYBLOOM_STATUS_REFUSED);
    CHECK(strcmp(valkeybloom_last_error(), error->valuestring) == 0);
    return false;
}

static bool is_bytes(const cJSON *digits, const uint8_t *data, size_t length) {
    valkeybloom_buffer expected = unhex(digits->valuestring);
    bool same = expected.length == length && (length == 0 || memcmp(expected.data, data, length) == 0);
    free(expected.data);
    return same;
}

static bool is_item(const cJSON *item, const uint8_t *data, size_t length) {
    valkeybloom_buffer expected = item_of(item);
    bool same = expected.length == length && memcmp(expected.data, data, length) == 0;
    free(expected.data);
    return same;
}

// The calls that all families have.
static void hold(const cJSON *cases, valkeybloom_object *object, valkeybloom_object *twin, valkeybloom_family wanted) {
    bool equal = false;
    OK(valkeybloom_equal(object, twin, &equal));
    CHECK(equal);
    valkeybloom_buffer bytes;
    OK(valkeybloom_to_bytes(object, &bytes));
    const cJSON *load = field(cases, "load"), *dump = field(cases, "dump");
    CHECK(is_bytes(load ? load : dump, bytes.data, bytes.length));
    valkeybloom_buffer_free(&bytes);
    const cJSON *forms[] = {dump, load};
    for (int i = 0; i < 2 && forms[i]; i++) {
        valkeybloom_object *again = NULL;
        valkeybloom_family family;
        bytes = unhex(forms[i]->valuestring);
        OK(valkeybloom_from_bytes(bytes.data, bytes.length, &again));
        OK(valkeybloom_family_of(again, &family));
        CHECK(family == wanted);
        OK(valkeybloom_equal(object, again, &equal));
        CHECK(equal);
        valkeybloom_free(again);
        free(bytes.data);
    }
    valkeybloom_free(object);
    valkeybloom_free(twin);
}

// The chunks of those families that have them, there and back.
static void hold_chunks(const cJSON *cases, const valkeybloom_object *object, valkeybloom_family family) {
    const cJSON *chunk;
    valkeybloom_buffer bytes;
    uint64_t cursor = 0;
    bool equal = false;
    valkeybloom_object *again = NULL;
    valkeybloom_loader *loader = NULL;
    if (field(cases, "chunks") == NULL)
        return;
    OK(valkeybloom_loader_new(family, &loader));
    cJSON_ArrayForEach(chunk, field(cases, "chunks")) {
        OK(valkeybloom_next_chunk(object, &cursor, &bytes));
        CHECK((double)cursor == cJSON_GetArrayItem(chunk, 0)->valuedouble);
        CHECK(is_bytes(cJSON_GetArrayItem(chunk, 1), bytes.data, bytes.length));
        OK(valkeybloom_loader_load(loader, cursor, bytes.data, bytes.length));
        valkeybloom_buffer_free(&bytes);
    }
    OK(valkeybloom_next_chunk(object, &cursor, &bytes));
    CHECK(cursor == 0 && bytes.data == NULL);
    OK(valkeybloom_loader_finish(loader, &again));
    valkeybloom_loader_free(loader);
    OK(valkeybloom_equal(object, again, &equal));
    CHECK(equal);
    valkeybloom_free(again);
}

// Appends a word and a number, if a case or a step has it.
static void option(char *options, const cJSON *of, const char *name, const char *word) {
    if (field(of, name) != NULL)
        sprintf(options + strlen(options), " %s %.0f", word, number(of, name));
}

static valkeybloom_object *new_bloom(const cJSON *create) {
    valkeybloom_object *filter = NULL;
    if (field(create, "dump") != NULL) {
        valkeybloom_buffer dump = unhex(field(create, "dump")->valuestring);
        OK(valkeybloom_from_bytes(dump.data, dump.length, &filter));
        free(dump.data);
        return filter;
    }
    char options[256] = "";
    if (number(create, "expansion") == 0)
        strcpy(options, "NONSCALING");
    else
        option(options, create, "expansion", "EXPANSION");
    if (cJSON_IsTrue(field(create, "counting")))
        strcat(options, " COUNTING");
    option(options, create, "window_ms", "WINDOW");
    option(options, create, "periods", "PERIODS");
    option(options, create, "scale_to", "SCALETO");
    valkeybloom_buffer seed = unhex(field(create, "seed")->valuestring);
    CHECK(seed.length == 32);
    uint64_t capacity = (uint64_t)number(create, "capacity");
    OK(valkeybloom_bloom_new(capacity, number(create, "error_rate"), options, seed.data, &filter));
    free(seed.data);
    return filter;
}

static void bloom(const cJSON *cases) {
    valkeybloom_object *filter = new_bloom(field(cases, "create")), *twin = new_bloom(field(cases, "create"));
    const cJSON *found;
    cJSON_ArrayForEach(found, field(cases, "steps")) {
        char time[128] = "", options[128] = "";
        option(time, found, "at_ms", "AT");
        option(options, found, "at_ms", "AT");
        option(options, found, "ttl_ms", "TTL");
        const char *names[] = {"add", "contains", "remove", "count"};
        const cJSON *reply = field(found, "reply");
        if (field(found, "cardinality") != NULL) {
            valkeybloom_bloom_info info = {.size = sizeof info};
            OK(valkeybloom_bloom_describe(filter, time, &info));
            CHECK((double)info.items == reply->valuedouble);
            continue;
        }
        int name = 0;
        while (field(found, names[name]) == NULL) CHECK(++name < 4);
        struct step step = step_of(field(found, names[name]));
        CHECK(step.length > 0);
        bool flag = false, refused = false;
        uint64_t new_items = 0, count = 0;
        for (int i = 0; i < step.length && !refused; i++) {
            const cJSON *expected = cJSON_GetArrayItem(reply, i);
            switch (name) {
            case 0:
                refused = !succeeded(valkeybloom_bloom_add(filter, ITEM(&step, i), options, &flag), expected);
                new_items += flag && !refused;
                break;
            case 1: OK(valkeybloom_contains(filter, ITEM(&step, i), time, &flag)); break;
            case 2:
                OK(valkeybloom_remove(filter, ITEM(&step, i), &flag));
                OK(valkeybloom_remove(twin, ITEM(&step, i), NULL));
                break;
            case 3: OK(valkeybloom_count(filter, ITEM(&step, i), &count)); break;
            }
            CHECK(refused || (name == 3 ? (double)count == expected->valuedouble : flag == cJSON_IsTrue(expected)));
        }
        if (name == 0) {
            valkeybloom_status status = valkeybloom_bloom_add_many(twin, &step.batch, options, NULL, &count);
            CHECK(refused ? status == VALKEYBLOOM_STATUS_REFUSED : status == VALKEYBLOOM_STATUS_OK && count == new_items);
        }
        if (name == 1) {
            uint8_t *answers = malloc((size_t)step.length);
            step.batch.offsets64 = NULL;
            step.batch.offsets32 = step.offsets32;
            OK(valkeybloom_contains_many(filter, &step.batch, time, answers));
            for (int i = 0; i < step.length; i++) CHECK(answers[i] == cJSON_IsTrue(cJSON_GetArrayItem(reply, i)));
            free(answers);
        }
        free_step(&step);
    }
    hold_chunks(cases, filter, VALKEYBLOOM_FAMILY_BLOOM);
    hold(cases, filter, twin, VALKEYBLOOM_FAMILY_BLOOM);
}

static valkeybloom_object *new_cuckoo(const cJSON *create) {
    valkeybloom_object *filter = NULL;
    char options[256] = "";
    option(options, create, "bucket_size", "BUCKETSIZE");
    option(options, create, "max_iterations", "MAXITERATIONS");
    option(options, create, "expansion", "EXPANSION");
    OK(valkeybloom_cuckoo_new((uint64_t)number(create, "capacity"), options, &filter));
    return filter;
}

static void cuckoo(const cJSON *cases) {
    valkeybloom_object *filter = new_cuckoo(field(cases, "create")), *twin = new_cuckoo(field(cases, "create"));
    const cJSON *found;
    cJSON_ArrayForEach(found, field(cases, "steps")) {
        const char *names[] = {"add", "add_new", "contains", "remove", "count"};
        const cJSON *reply = field(found, "reply");
        int name = 0;
        while (field(found, names[name]) == NULL) CHECK(++name < 5);
        struct step step = step_of(field(found, names[name]));
        CHECK(step.length > 0);
        bool flag = false, refused = false;
        uint64_t added = 0, count = 0;
        for (int i = 0; i < step.length && !refused; i++) {
            const cJSON *expected = cJSON_GetArrayItem(reply, i);
            switch (name) {
            case 0:
            case 1:
                refused = !succeeded(valkeybloom_cuckoo_add(filter, ITEM(&step, i), name == 1, &flag), expected);
                added += flag && !refused;
                break;
            case 2: OK(valkeybloom_contains(filter, ITEM(&step, i), NULL, &flag)); break;
            case 3:
                OK(valkeybloom_remove(filter, ITEM(&step, i), &flag));
                OK(valkeybloom_remove(twin, ITEM(&step, i), NULL));
                break;
            case 4: OK(valkeybloom_count(filter, ITEM(&step, i), &count)); break;
            }
            CHECK(refused || (name == 4 ? (double)count == expected->valuedouble : flag == cJSON_IsTrue(expected)));
        }
        if (name <= 1) {
            valkeybloom_status status = valkeybloom_cuckoo_add_many(twin, &step.batch, name == 1, NULL, &count);
            CHECK(refused ? status == VALKEYBLOOM_STATUS_REFUSED : status == VALKEYBLOOM_STATUS_OK && count == added);
        }
        if (name == 2) {
            uint8_t *answers = malloc((size_t)step.length);
            OK(valkeybloom_contains_many(filter, &step.batch, NULL, answers));
            for (int i = 0; i < step.length; i++) CHECK(answers[i] == cJSON_IsTrue(cJSON_GetArrayItem(reply, i)));
            free(answers);
        }
        free_step(&step);
    }
    hold_chunks(cases, filter, VALKEYBLOOM_FAMILY_CUCKOO);
    hold(cases, filter, twin, VALKEYBLOOM_FAMILY_CUCKOO);
}

static valkeybloom_object *new_count_min(const cJSON *create) {
    valkeybloom_object *sketch = NULL;
    if (field(create, "width") != NULL)
        OK(valkeybloom_count_min_new((uint64_t)number(create, "width"), (uint64_t)number(create, "depth"), NULL, &sketch));
    else
        OK(valkeybloom_count_min_from_rates(number(create, "error_rate"), number(create, "probability"), NULL, &sketch));
    return sketch;
}

static void count_min(const cJSON *cases) {
    valkeybloom_object *sketch = new_count_min(field(cases, "create")), *twin = new_count_min(field(cases, "create"));
    const cJSON *found;
    cJSON_ArrayForEach(found, field(cases, "steps")) {
        const cJSON *reply = field(found, "reply"), *increment = field(found, "increment");
        struct step step = step_of(increment ? increment : field(found, "query"));
        CHECK(step.length > 0);
        uint64_t count = 0;
        bool refused = false;
        for (int i = 0; i < step.length && !refused; i++) {
            const cJSON *expected = cJSON_GetArrayItem(reply, i);
            if (increment)
                refused = !succeeded(valkeybloom_count_min_add(sketch, ITEM(&step, i), step.by[i], &count), expected);
            else
                OK(valkeybloom_count(sketch, ITEM(&step, i), &count));
            CHECK(refused || (double)count == expected->valuedouble);
        }
        if (increment) {
            valkeybloom_status status = valkeybloom_count_min_add_many(twin, &step.batch, step.by);
            CHECK(status == (refused ? VALKEYBLOOM_STATUS_REFUSED : VALKEYBLOOM_STATUS_OK));
        } else {
            uint64_t *counts = malloc((size_t)step.length * sizeof *counts);
            OK(valkeybloom_count_min_count_many(sketch, &step.batch, counts));
            for (int i = 0; i < step.length; i++)
                CHECK((double)counts[i] == cJSON_GetArrayItem(reply, i)->valuedouble);
            free(counts);
        }
        free_step(&step);
    }
    hold(cases, sketch, twin, VALKEYBLOOM_FAMILY_COUNT_MIN);
}

static valkeybloom_object *new_top_k(const cJSON *create) {
    valkeybloom_object *list = NULL;
    OK(valkeybloom_top_k_new((uint64_t)number(create, "k"), (uint64_t)number(create, "width"),
                             (uint64_t)number(create, "depth"), number(create, "decay"), &list));
    return list;
}

static void top_k(const cJSON *cases) {
    valkeybloom_object *list = new_top_k(field(cases, "create")), *twin = new_top_k(field(cases, "create"));
    const cJSON *found, *expected;
    cJSON_ArrayForEach(found, field(cases, "steps")) {
        const cJSON *reply = field(found, "reply");
        if (cJSON_HasObjectItem(found, "list")) {
            valkeybloom_items items;
            OK(valkeybloom_top_k_list(list, &items));
            CHECK(items.length == (size_t)cJSON_GetArraySize(reply));
            size_t i = 0;
            cJSON_ArrayForEach(expected, reply) {
                size_t length = (size_t)(items.offsets[i + 1] - items.offsets[i]);
                CHECK(is_item(cJSON_GetArrayItem(expected, 0), items.data + items.offsets[i], length));
                CHECK((double)items.counts[i] == cJSON_GetArrayItem(expected, 1)->valuedouble);
                i++;
            }
            valkeybloom_items_free(&items);
            continue;
        }
        const cJSON *contains = field(found, "contains"), *add = field(found, "add");
        struct step step = step_of(contains ? contains : add ? add : field(found, "increment"));
        CHECK(step.length > 0);
        size_t gone = 0;
        for (int i = 0; i < step.length; i++) {
            expected = cJSON_GetArrayItem(reply, i);
            if (contains) {
                bool flag = false;
                OK(valkeybloom_contains(list, ITEM(&step, i), NULL, &flag));
                CHECK(flag == cJSON_IsTrue(expected));
                continue;
            }
            valkeybloom_buffer left;
            OK(valkeybloom_top_k_add(list, ITEM(&step, i), step.by[i], &left));
            CHECK(cJSON_IsNull(expected) == (left.data == NULL));
            CHECK(cJSON_IsNull(expected) || is_item(expected, left.data, left.length));
            gone += left.data != NULL;
            valkeybloom_buffer_free(&left);
        }
        if (!contains) {
            valkeybloom_items left;
            OK(valkeybloom_top_k_add_many(twin, &step.batch, add ? NULL : step.by, &left));
            CHECK(left.length == gone);
            valkeybloom_items_free(&left);
        }
        free_step(&step);
    }
    hold(cases, list, twin, VALKEYBLOOM_FAMILY_TOP_K);
}

static void tdigest(const cJSON *cases) {
    valkeybloom_object *digest = NULL, *twin = NULL;
    uint64_t compression = (uint64_t)number(field(cases, "create"), "compression");
    OK(valkeybloom_tdigest_new(compression, &digest));
    OK(valkeybloom_tdigest_new(compression, &twin));
    const char *names[] = {"add", "quantile", "cdf", "rank", "reverse_rank", "by_rank", "by_reverse_rank",
                           "trimmed_mean", "min", "max"};
    const cJSON *found;
    cJSON_ArrayForEach(found, field(cases, "steps")) {
        const cJSON *reply = field(found, "reply");
        int name = 0;
        while (!cJSON_HasObjectItem(found, names[name])) CHECK(++name < 10);
        struct step step = step_of(field(found, names[name]));
        size_t length = (size_t)step.length;
        double *doubles = malloc((length + 1) * sizeof *doubles);
        int64_t *ranks = malloc((length + 1) * sizeof *ranks);
        uint64_t *by = malloc((length + 1) * sizeof *by);
        for (size_t i = 0; i < length; i++) by[i] = (uint64_t)step.doubles[i];
        valkeybloom_tdigest_info info = {.size = sizeof info};
        OK(valkeybloom_tdigest_describe(digest, &info));
        switch (name) {
        case 0:
            OK(valkeybloom_tdigest_add(digest, step.doubles, length));
            for (size_t i = 0; i < length; i++) OK(valkeybloom_tdigest_add(twin, step.doubles + i, 1));
            break;
        case 1: OK(valkeybloom_tdigest_quantiles(digest, step.doubles, length, doubles)); break;
        case 2: OK(valkeybloom_tdigest_cdf(digest, step.doubles, length, doubles)); break;
        case 3: OK(valkeybloom_tdigest_ranks(digest, step.doubles, length, false, ranks)); break;
        case 4: OK(valkeybloom_tdigest_ranks(digest, step.doubles, length, true, ranks)); break;
        case 5: OK(valkeybloom_tdigest_by_ranks(digest, by, length, false, doubles)); break;
        case 6: OK(valkeybloom_tdigest_by_ranks(digest, by, length, true, doubles)); break;
        case 7: OK(valkeybloom_tdigest_trimmed_mean(digest, step.doubles[0], step.doubles[1], doubles)); break;
        case 8: doubles[0] = info.min; break;
        case 9: doubles[0] = info.max; break;
        }
        if (name >= 7) {
            CHECK(is_double(reply, doubles[0]));
        } else if (name > 0) {
            CHECK(cJSON_GetArraySize(reply) == step.length);
            for (int i = 0; i < step.length; i++) {
                double answer = name == 3 || name == 4 ? (double)ranks[i] : doubles[i];
                CHECK(is_double(cJSON_GetArrayItem(reply, i), answer));
            }
        }
        free(doubles);
        free(ranks);
        free(by);
        free_step(&step);
    }
    hold(cases, digest, twin, VALKEYBLOOM_FAMILY_T_DIGEST);
}

// Returns the text of a file, for the caller to free.
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    size_t length = (size_t)ftell(file);
    char *text = malloc(length + 1);
    rewind(file);
    CHECK(text != NULL && fread(text, 1, length, file) == length);
    text[length] = 0;
    fclose(file);
    return text;
}

int main(int count, char **paths) {
    const struct {
        const char *family;
        void (*replay)(const cJSON *);
    } families[] = {
        {"bloom", bloom}, {"cuckoo", cuckoo}, {"count-min", count_min}, {"top-k", top_k}, {"t-digest", tdigest}};
    int replayed = 0;
    for (int i = 1; i < count; i++) {
        at = paths[i];
        char *text = read_file(paths[i]);
        cJSON *file = cJSON_Parse(text);
        // hash.json has no family: no call returns hashes.
        const cJSON *family = field(file, "family"), *one;
        CHECK(family != NULL || field(file, "hashes") != NULL);
        cJSON_ArrayForEach(one, field(file, "cases")) {
            at = field(one, "name")->valuestring;
            for (size_t j = 0; j < sizeof families / sizeof families[0]; j++) {
                if (strcmp(families[j].family, family->valuestring) == 0) {
                    families[j].replay(one);
                    replayed++;
                }
            }
        }
        cJSON_Delete(file);
        free(text);
    }
    CHECK(replayed > 0);
    printf("vectors: %d cases are as they were\n", replayed);
    return 0;
}
