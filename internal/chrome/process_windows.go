package chrome

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// pipeEnds are both ends of the two pipes. Chromium is told the handles of
// its ends on the command line.
type pipeEnds struct {
	read, write           *os.File // ours
	childRead, childWrite *os.File // Chromium's
}

func debugPipe(cmd *exec.Cmd) (*pipeEnds, error) {
	var e pipeEnds
	var err error
	if e.childRead, e.write, err = os.Pipe(); err != nil {
		return nil, err
	}
	if e.read, e.childWrite, err = os.Pipe(); err != nil {
		e.closeAll()
		return nil, err
	}
	in, out := e.childRead.Fd(), e.childWrite.Fd()
	for _, h := range []uintptr{in, out} {
		if err := windows.SetHandleInformation(windows.Handle(h), windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			e.closeAll()
			return nil, fmt.Errorf("inherit pipe: %w", err)
		}
	}
	last := len(cmd.Args) - 1
	cmd.Args = append(cmd.Args[:last:last], fmt.Sprintf("--remote-debugging-io-pipes=%d,%d", in, out), cmd.Args[last])
	cmd.SysProcAttr = &syscall.SysProcAttr{
		AdditionalInheritedHandles: []syscall.Handle{syscall.Handle(in), syscall.Handle(out)},
		CreationFlags:              windows.CREATE_NEW_PROCESS_GROUP,
	}
	return &e, nil
}

func (e *pipeEnds) Read(p []byte) (int, error)  { return e.read.Read(p) }
func (e *pipeEnds) Write(p []byte) (int, error) { return e.write.Write(p) }

// Close ends our side, at which Chromium quits.
func (e *pipeEnds) Close() error { return errors.Join(e.write.Close(), e.read.Close()) }

func (e *pipeEnds) closeChild() {
	_ = e.childRead.Close()
	_ = e.childWrite.Close()
}

func (e *pipeEnds) closeAll() {
	for _, f := range []*os.File{e.read, e.write, e.childRead, e.childWrite} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// prepare has nothing left to do: debugPipe has set the attributes.
func prepare(*exec.Cmd) {}

// job holds the browser and its children; Windows ends them when the last
// handle is closed, as it is when the host dies.
type job struct{ handle windows.Handle }

func contain(p *os.Process) (job, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return job{}, fmt.Errorf("create job: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(h)
		return job{}, fmt.Errorf("set job limits: %w", err)
	}
	proc, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		_ = windows.CloseHandle(h)
		return job{}, fmt.Errorf("open process: %w", err)
	}
	defer func() { _ = windows.CloseHandle(proc) }()
	if err := windows.AssignProcessToJobObject(h, proc); err != nil {
		_ = windows.CloseHandle(h)
		return job{}, fmt.Errorf("assign to job: %w", err)
	}
	return job{h}, nil
}

func (j job) kill(int) {
	if j.handle != 0 {
		_ = windows.TerminateJobObject(j.handle, 1)
	}
}

func rootUser() bool { return false }

func lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}
