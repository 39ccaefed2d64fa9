/* sijil-manual: writes one man page or completion. Only the build runs it; it is not installed. */
#include <stdlib.h>
#include <string.h>

#include "cmd/manual/manual.h"
#include "cmd/options.h"

static const struct program *const programs[] = {&sijild_program, &keyd_program,    &verify_program,
                                                 &runner_program, &witness_program, &audit_dump_program};

static bool write_client(FILE *out, const char *kind)
{
    if (strcmp(kind, "man") == 0) page_of_client(out);
    else if (strcmp(kind, "bash") == 0) bash_of_client(out);
    else if (strcmp(kind, "zsh") == 0) zsh_of_client(out);
    else return false;
    return true;
}

static bool write_program(FILE *out, const char *kind, const struct program *program)
{
    if (strcmp(kind, "man") == 0) page_of_program(out, program);
    else if (strcmp(kind, "bash") == 0) bash_of_program(out, program);
    else if (strcmp(kind, "zsh") == 0) zsh_of_program(out, program);
    else return false;
    return true;
}

static bool write_api(FILE *out, const char *name)
{
    if (strcmp(name, "openapi.json") == 0) return api_description(out);
    if (strcmp(name, "roles") == 0) roles_table(out);
    else if (strcmp(name, "tables") == 0) api_tables(out);
    else return false;
    return true;
}

static bool write_one(FILE *out, const char *kind, const char *name)
{
    if (strcmp(kind, "api") == 0) return write_api(out, name);
    if (strcmp(name, "sijil") == 0) return write_client(out, kind);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (strcmp(name, programs[i]->name) == 0) return write_program(out, kind, programs[i]);
    if (strcmp(name, "sijild.conf") != 0 || strcmp(kind, "man") != 0) return false;
    page_of_settings(out);
    return true;
}

int main(int argc, char **argv)
{
    FILE *out = argc == 4 ? fopen(argv[3], "we") : NULL;

    if (out == NULL) {
        (void)fputs("usage: sijil-manual man|bash|zsh PROGRAM FILE, or api openapi.json|tables|roles FILE\n", stderr);
        return EXIT_FAILURE;
    }
    const bool known = write_one(out, argv[1], argv[2]);
    const bool written = ferror(out) == 0;
    return fclose(out) == 0 && known && written ? EXIT_SUCCESS : EXIT_FAILURE;
}
