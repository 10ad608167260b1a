// The only file of an image that has no shell. Does what its arguments say, one after the other.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[1 << 20];

static void write_megabytes(const char *path, int count) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    memset(block, 'x', sizeof block);
    while (file >= 0 && count-- > 0)
        if (write(file, block, sizeof block) < 0) {
            perror("write");
            exit(9);
        }
    close(file);
}

static void say(int descriptor, const char *text) {
    dprintf(descriptor, "%s\n", text);
}

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        char *verb = strtok(words[i], "="), *value = strtok(NULL, "");
        if (!strcmp(verb, "out")) say(1, value);
        else if (!strcmp(verb, "err")) say(2, value);
        else if (!strcmp(verb, "env")) say(1, getenv(value));
        else if (!strcmp(verb, "where")) say(1, getcwd(block, sizeof block));
        else if (!strcmp(verb, "user")) dprintf(1, "%d\n", getuid());
        else if (!strcmp(verb, "touch")) write_megabytes(value, 0);
        else if (!strcmp(verb, "write")) write_megabytes(value, 1);
        else if (!strcmp(verb, "fill")) write_megabytes("filled", atoi(value));
        else if (!strcmp(verb, "eat")) memset(malloc(atol(value) << 20), 1, atol(value) << 20);
        else if (!strcmp(verb, "deaf")) signal(SIGTERM, SIG_IGN);
        else if (!strcmp(verb, "await")) while (access(value, F_OK)) usleep(20000);
        else if (!strcmp(verb, "sleep")) sleep(1000);
        else if (!strcmp(verb, "exit")) return atoi(value);
        else if (!strcmp(verb, "stray")) {  // in a session of its own, with our output open
            if (!fork()) {
                setsid();
                signal(SIGTERM, SIG_IGN);
                sleep(1000);
            }
        } else return 64;
    }
    return 0;
}
