"""Other machines, reached by the system's ssh: programs recorded there, recordings viewed here.

`ssh` is the connection, `bootstrap` and `there` run on the other machine, from a copy of this
package (`bundle`) that is made once. `recording` is ``warpline profile --host``, `copies` fetches
recordings that are named ``HOST:PATH``, and `tunnel` leaves them there for ``warpline view``.
Nothing listens but ssh, and the viewer on the loopback interface.
"""
