/* sijil: the command line. */
#include "client/command.h"

int main(int argc, char **argv)
{
    return client_main(argc, argv);
}
