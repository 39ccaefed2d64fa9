/* migrate_tool CONNINFO: applies the migrations as sijild --migrate does, for postgres.sh. */
#include <stdio.h>

#include "storage/migrate.h"

int main(int argc, char **argv)
{
    struct migration_report report;
    struct error err;

    if (argc != 2) return 2;
    if (storage_migrate(argv[1], &report, &err).ok) return 0;
    (void)fprintf(stderr, "%s\n", err.message);
    return 1;
}
