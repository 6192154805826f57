/* A module of the tests that plays RedisBloom. It has the types of RedisBloom that are no Bloom filters, with empty
 * values, and refuses what the BF commands are given.
 *
 * FAMILY.MAKE key type    type is a number from 0: the cuckoo filter, the two sketches, the digest */
#include <stddef.h>

#include "module.h"

typedef struct {
    unsigned long long version;
    void *(*load)(Io *, int);
    void (*save)(Io *, void *);
    void (*rewrite)(Io *, String *, void *);
    size_t (*memory)(const void *);
    void (*digest)(void *, void *);
    void (*free)(void *);
} Methods;

#define FUNCTIONS(X)                                                                      \
    X(int, SetModuleAttribs, (Ctx *, const char *, int, int))                             \
    X(int, CreateCommand, (Ctx *, const char *, Command *, const char *, int, int, int))  \
    X(Type *, CreateDataType, (Ctx *, const char *, int, Methods *))                      \
    X(int, StringToLongLong, (const String *, long long *))                               \
    X(int, ReplyWithError, (Ctx *, const char *))                                         \
    X(int, ReplyWithSimpleString, (Ctx *, const char *))                                  \
    X(Key *, OpenKey, (Ctx *, String *, int))                                             \
    X(int, ModuleTypeSetValue, (Key *, Type *, void *))                                   \
    X(void, CloseKey, (Key *))

FUNCTIONS(DECLARE)

static const char *const names[] = {"MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"};
enum { TYPES = sizeof names / sizeof *names };
static Type *types[TYPES];

static void *load(Io *io, int version) {
    (void)io, (void)version;
    return types;
}

static void save(Io *io, void *value) { (void)io, (void)value; }
static void rewrite(Io *io, String *key, void *value) { (void)io, (void)key, (void)value; }
static void release(void *value) { (void)value; }

static int make(Ctx *ctx, String **argv, int argc) {
    long long type;
    if (argc != 3 || StringToLongLong(argv[2], &type) != OK || type < 0 || type >= TYPES)
        return ReplyWithError(ctx, "ERR no such type");
    Key *key = OpenKey(ctx, argv[1], READ | WRITE);
    ModuleTypeSetValue(key, types[type], types);
    CloseKey(key);
    return ReplyWithSimpleString(ctx, "OK");
}

static int refuse(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithError(ctx, "ERR received bad data");
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    FUNCTIONS(LOOK_UP)
    SetModuleAttribs(ctx, "family", 1, 1);
    Methods methods = {1, load, save, rewrite, NULL, NULL, release};
    for (int type = 0; type < TYPES; type++) {
        types[type] = CreateDataType(ctx, names[type], 0, &methods);
        if (!types[type]) return ERR;
    }
    static const char *const commands[] = {"bf.info", "bf.scandump", "bf.loadchunk"};
    for (int command = 0; command < 3; command++)
        if (CreateCommand(ctx, commands[command], refuse, "", 1, 1, 1) != OK) return ERR;
    return CreateCommand(ctx, "family.make", make, "write", 1, 1, 1);
}
