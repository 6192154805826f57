/* A module of the tests: loads the module under test, and lends it the API of a server that saves without a fork.
 *
 * loadmodule forkless.so KNOWN module [arg ...]  a server that knows these options, a number; at 0 none that says so.
 *                     It lacks the event of atomic slot migrations
 * FORKLESS.OPTIONS    the options that the module has set
 * FORKLESS.BEGIN key  from now on another thread saves the value of this key, again and again, and the key can't be
 *                     opened for writing
 * FORKLESS.SAVES      how often was it saved?
 * FORKLESS.END        no more; how often was something else saved than at first, before there was a thread? */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

typedef int Get(const char *, void *);

/* As far as it is looked at: version, rdb_load, rdb_save. */
typedef struct {
    unsigned long version;
    void *load;
    void (*save)(Io *, void *);
} Methods;

typedef struct { unsigned long long id, version; } Event;
enum { SLOT_MIGRATION = 19 };

#define FUNCTIONS(X)                                                                      \
    X(int, CreateCommand, (Ctx *, const char *, Command *, const char *, int, int, int))  \
    X(Type *, CreateDataType, (Ctx *, const char *, int, Methods *))                      \
    X(void, SetModuleOptions, (Ctx *, int))                                               \
    X(int, SubscribeToServerEvent, (Ctx *, Event, void *))                                \
    X(int, WrongArity, (Ctx *))                                                           \
    X(int, ReplyWithLongLong, (Ctx *, long long))                                         \
    X(int, ReplyWithError, (Ctx *, const char *))                                         \
    X(int, ReplyWithSimpleString, (Ctx *, const char *))                                  \
    X(const char *, StringPtrLen, (const String *, size_t *))                             \
    X(int, StringCompare, (String *, String *))                                           \
    X(String *, CreateStringFromString, (Ctx *, const String *))                          \
    X(void, FreeString, (Ctx *, String *))                                                \
    X(Key *, OpenKey, (Ctx *, String *, int))                                             \
    X(Type *, ModuleTypeGetType, (Key *))                                                 \
    X(void *, ModuleTypeGetValue, (Key *))                                                \
    X(void, CloseKey, (Key *))                                                            \
    X(void, SaveUnsigned, (Io *, unsigned long long))                                     \
    X(void, SaveDouble, (Io *, double))                                                   \
    X(void, SaveStringBuffer, (Io *, const char *, size_t))

FUNCTIONS(DECLARE)

enum { TYPES_MAX = 16 };

static int known, options;
static struct { Type *type; void (*save)(Io *, void *); } types[TYPES_MAX];
static int type_count;

/* What is being saved. */
static String *saving;
static void *value;
static void (*save)(Io *, void *);
static pthread_t saver;
static atomic_int enough, saves, differing;

/* The stream that the thread saves to, whose address tells it from the server's. */
typedef struct { char *bytes; size_t length, room; } Stream;
static Stream first, again;
static _Thread_local Stream *current;
static char ours;

static void append(const void *bytes, size_t length) {
    if (current->room - current->length < length) {
        current->room = (current->length + length) * 2;
        current->bytes = realloc(current->bytes, current->room);
    }
    memcpy(current->bytes + current->length, bytes, length);
    current->length += length;
}

static void save_unsigned(Io *io, unsigned long long number) {
    if ((char *)io != &ours) return SaveUnsigned(io, number);
    append(&number, sizeof number);
}

static void save_double(Io *io, double number) {
    if ((char *)io != &ours) return SaveDouble(io, number);
    append(&number, sizeof number);
}

static void save_string(Io *io, const char *bytes, size_t length) {
    if ((char *)io != &ours) return SaveStringBuffer(io, bytes, length);
    append(&length, sizeof length);
    append(bytes, length);
}

static void save_to(Stream *stream) {
    stream->length = 0;
    current = stream;
    save((Io *)&ours, value);
}

static void *save_again(void *unused) {
    while (!enough) {
        save_to(&again);
        differing += again.length != first.length || memcmp(again.bytes, first.bytes, first.length);
        saves++;
    }
    return unused;
}

static Key *open_key(Ctx *ctx, String *name, int mode) {
    if (mode & WRITE && saving && !StringCompare(saving, name)) return NULL;
    return OpenKey(ctx, name, mode);
}

static Type *create_type(Ctx *ctx, const char *name, int version, Methods *methods) {
    Type *type = CreateDataType(ctx, name, version, methods);
    if (type_count < TYPES_MAX) {
        types[type_count].type = type;
        types[type_count++].save = methods->save;
    }
    return type;
}

static int know_options(void) { return known; }

static void set_options(Ctx *ctx, int set) {
    options = set;
    /* The server that this one is knows as many. */
    SetModuleOptions(ctx, set & 7);
}

static int subscribe(Ctx *ctx, Event event, void *callback) {
    return event.id == SLOT_MIGRATION ? ERR : SubscribeToServerEvent(ctx, event, callback);
}

static int begin(Ctx *ctx, String **argv, int argc) {
    if (argc != 2 || saving) return WrongArity(ctx);
    Key *key = OpenKey(ctx, argv[1], READ);
    Type *type = key ? ModuleTypeGetType(key) : NULL;
    value = key ? ModuleTypeGetValue(key) : NULL;
    save = NULL;
    for (int i = 0; i < type_count; i++) if (types[i].type == type) save = types[i].save;
    if (key) CloseKey(key);
    if (!value || !save) return ReplyWithError(ctx, "ERR no value of the module");
    save_to(&first);
    enough = saves = differing = 0;
    if (pthread_create(&saver, NULL, save_again, NULL)) return ReplyWithError(ctx, "ERR no thread");
    saving = CreateStringFromString(NULL, argv[1]);
    return ReplyWithSimpleString(ctx, "OK");
}

static int count(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithLongLong(ctx, saves);
}

static int end(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    if (argc != 1 || !saving) return WrongArity(ctx);
    enough = 1;
    pthread_join(saver, NULL);
    FreeString(NULL, saving);
    saving = NULL;
    return ReplyWithLongLong(ctx, differing);
}

static int tell_options(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithLongLong(ctx, options);
}

static Get *get;

/* What the module gets, when it asks for a function. */
static int lend(const char *name, void *function) {
    static const struct { const char *name; void *function; } lent[] = {
        {"RedisModule_OpenKey", open_key},
        {"RedisModule_CreateDataType", create_type},
        {"RedisModule_SetModuleOptions", set_options},
        {"RedisModule_SubscribeToServerEvent", subscribe},
        {"RedisModule_SaveUnsigned", save_unsigned},
        {"RedisModule_SaveDouble", save_double},
        {"RedisModule_SaveStringBuffer", save_string},
    };
    if (!strcmp(name, "ValkeyModule_GetModuleOptionsAll")) {
        *(void **)function = known ? know_options : NULL;
        return known ? OK : ERR;
    }
    for (size_t i = 0; i < sizeof lent / sizeof *lent; i++) {
        if (strcmp(name, lent[i].name)) continue;
        *(void **)function = lent[i].function;
        return OK;
    }
    return get(name, function);
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    get = *(Get **)ctx;
    FUNCTIONS(LOOK_UP)
    if (argc < 2) return ERR;
    known = atoi(StringPtrLen(argv[0], NULL));
    void *module = dlopen(StringPtrLen(argv[1], NULL), RTLD_NOW | RTLD_LOCAL);
    Command *load = module ? (Command *)dlsym(module, "RedisModule_OnLoad") : NULL;
    if (!load) return ERR;
    *(Get **)ctx = lend;
    int status = load(ctx, argv + 2, argc - 2);
    *(Get **)ctx = get;
    if (status != OK) return ERR;
    if (CreateCommand(ctx, "forkless.options", tell_options, "", 0, 0, 0) != OK) return ERR;
    if (CreateCommand(ctx, "forkless.begin", begin, "", 0, 0, 0) != OK) return ERR;
    if (CreateCommand(ctx, "forkless.saves", count, "", 0, 0, 0) != OK) return ERR;
    return CreateCommand(ctx, "forkless.end", end, "", 0, 0, 0);
}
