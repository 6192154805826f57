/* What the modules of the tests share. Each declares what it uses of the API, and so needs no header of a server. */
typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Key Key;
typedef struct Type Type;
typedef struct Io Io;
typedef int Command(Ctx *, String **, int);

enum { OK, ERR };
enum { READ = 1, WRITE = 2 };

#define DECLARE(type, name, args) static type(*name) args;
#define LOOK_UP(type, name, args) if (get("RedisModule_" #name, &name) != OK) return ERR;
