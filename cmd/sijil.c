/* sijil: the command line. */
#include <stdio.h>
#include <stdlib.h>

#include "base/dump.h"
#include "client/commands/command.h"

int main(int argc, char **argv)
{
    if (!dump_forbid_files()) { /* passwords, tokens, models */
        perror("sijil: core files can't be forbidden");
        return EXIT_FAILURE;
    }
    return client_main(argc, argv);
}
