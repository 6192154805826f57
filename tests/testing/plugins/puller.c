/* A module of the tests: while the server tells of an event, it runs a command that pulls keys away.
 *
 * PULL.ON event key command [arg ...]  from now on, whenever this key has this event. The command DELETE key
 *                                      deletes a key by the API, without a command
 * PULL.OFF                             no more; how often was it run?
 * PULL.EXPIRE key                      lets the key expire when somebody opens it next */
#include <string.h>

#include "module.h"

typedef struct Reply Reply;
typedef int Subscriber(Ctx *, int, const char *, String *);

#define FUNCTIONS(X)                                                                      \
    X(int, SetModuleAttribs, (Ctx *, const char *, int, int))                             \
    X(int, CreateCommand, (Ctx *, const char *, Command *, const char *, int, int, int))  \
    X(int, SubscribeToKeyspaceEvents, (Ctx *, int, Subscriber *))                         \
    X(int, WrongArity, (Ctx *))                                                           \
    X(int, ReplyWithLongLong, (Ctx *, long long))                                         \
    X(int, ReplyWithSimpleString, (Ctx *, const char *))                                  \
    X(const char *, StringPtrLen, (const String *, size_t *))                             \
    X(String *, CreateStringFromString, (Ctx *, const String *))                          \
    X(void, FreeString, (Ctx *, String *))                                                \
    X(Reply *, Call, (Ctx *, const char *, const char *, ...))                            \
    X(void, FreeCallReply, (Reply *))                                                     \
    X(int, Replicate, (Ctx *, const char *, const char *, ...))                           \
    X(Key *, OpenKey, (Ctx *, String *, int))                                             \
    X(int, DeleteKey, (Key *))                                                            \
    X(int, SetAbsExpire, (Key *, long long))                                              \
    X(void, CloseKey, (Key *))

FUNCTIONS(DECLARE)

enum { GENERIC = 1 << 2, EXPIRED = 1 << 8, KEY_MISS = 1 << 11 };
enum { WORDS_MAX = 16 };

/* The event, its key, and the command with its arguments; none while it is off. */
static String *words[WORDS_MAX];
static int count;
static long long runs;

static const char *text(const String *string) { return StringPtrLen(string, NULL); }

static void forget(void) {
    while (count > 0) FreeString(NULL, words[--count]);
}

static int on(Ctx *ctx, String **argv, int argc) {
    if (argc < 4 || argc > WORDS_MAX) return WrongArity(ctx);
    forget();
    for (runs = 0; count < argc - 1; count++) words[count] = CreateStringFromString(NULL, argv[count + 1]);
    return ReplyWithSimpleString(ctx, "OK");
}

static int off(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    if (argc != 1) return WrongArity(ctx);
    forget();
    return ReplyWithLongLong(ctx, runs);
}

static int expire(Ctx *ctx, String **argv, int argc) {
    if (argc != 2) return WrongArity(ctx);
    Key *key = OpenKey(ctx, argv[1], READ | WRITE);
    int done = SetAbsExpire(key, 1);
    CloseKey(key);
    return ReplyWithLongLong(ctx, done == OK);
}

static int told(Ctx *ctx, int class, const char *event, String *key) {
    (void)class;
    if (count == 0 || strcmp(event, text(words[0])) || strcmp(text(key), text(words[1]))) return OK;
    runs++;
    if (!strcmp(text(words[2]), "DELETE")) {
        Key *open = OpenKey(ctx, words[3], READ | WRITE);
        DeleteKey(open);
        CloseKey(open);
        Replicate(ctx, "DEL", "s", words[3]);
        return OK;
    }
    Reply *reply = Call(ctx, text(words[2]), "!v", words + 3, (size_t)(count - 3));
    if (reply) FreeCallReply(reply);
    return OK;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    FUNCTIONS(LOOK_UP)
    SetModuleAttribs(ctx, "pull", 1, 1);
    if (CreateCommand(ctx, "pull.on", on, "", 0, 0, 0) != OK) return ERR;
    if (CreateCommand(ctx, "pull.off", off, "", 0, 0, 0) != OK) return ERR;
    if (CreateCommand(ctx, "pull.expire", expire, "write", 1, 1, 1) != OK) return ERR;
    return SubscribeToKeyspaceEvents(ctx, GENERIC | EXPIRED | KEY_MISS, told);
}
